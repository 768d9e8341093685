"""Final runs whose task vectors are composed, exported, drawn and loaded."""

from __future__ import annotations

import pytest

from tausearch.runs import Storage, open_storage
from tests.support.command_line import Command
from tests.support.runs.composable_runs import make_composable_run


@pytest.fixture(autouse=True)
def _no_mlflow(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("system") is None:
        request.getfixturevalue("no_mlflow")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Storage:
    """Final runs of three tasks: one of each kind of task vector, one without vectors, one whose second seed failed."""
    storage = open_storage(tmp_path_factory.mktemp("runs"), write=True)
    methods = {"ita": "ita-lora", "iel": "iel-lora", "full": "iel-fft", "ia3": "ita-ia3", "tmc": "tmc", "tak": "tak"}
    for name, method in {**methods, "plain": "finetune"}.items():
        make_composable_run(storage, name, method)
    make_composable_run(storage, "half", failed=[1])
    return storage


@pytest.fixture(scope="session")
def curved(tmp_path_factory: pytest.TempPathFactory) -> Storage:
    """Final runs of one seed that have saved the curvature of each task, of both kinds, and one that has not."""
    storage = open_storage(tmp_path_factory.mktemp("curved"), write=True)
    for name, kind in {"diagonal": "diagonal", "kronecker": "kronecker", "plain": None}.items():
        make_composable_run(storage, name, seeds=[0], curvature=kind)
    return storage


@pytest.fixture
def shown(made: Storage, command: Command) -> Command:
    """Call the command line on the final runs."""
    return lambda *words, **expected: command(*words, "--storage", made.root, **expected)
