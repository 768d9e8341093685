"""What strangers hand over: an exported model in every form, copied so that it can be edited."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tausearch import compose
from tausearch.runs import Storage, open_storage
from tests.support.command_line import Ask
from tests.support.runs.composable_runs import make_composable_run
from tests.support.runs.letter_images import draw_letters
from trainables.data import get_source

Refused = Callable[..., str]


@pytest.fixture(autouse=True)
def _no_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tausearch.models.try_to_log", lambda *_: None)


@pytest.fixture(scope="session")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_letters(tmp_path_factory.mktemp("data") / "letters")


@pytest.fixture(scope="session")
def image(letters: Path) -> str:
    return str(letters / "test" / "A" / "012.png")


@pytest.fixture(scope="session")
def trained(letters: Path, tmp_path_factory: pytest.TempPathFactory) -> Storage:
    """A storage root with two final runs."""
    made = open_storage(tmp_path_factory.mktemp("runs"), write=True)
    for name in ("letters", "other"):
        make_composable_run(made, name, source=get_source(f"folder:{letters}?tasks=3&epochs=2"))
    return made


@pytest.fixture(scope="session")
def exported(trained: Storage, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A composition of the first run in every form."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tausearch.models.try_to_log", lambda *_: None)
        compose(["letters"], seeds=[0], export=tmp_path_factory.mktemp("out") / "model", storage=trained.root)
    return next(tmp_path_factory.getbasetemp().glob("out*/model"))


@pytest.fixture
def model(exported: Path, tmp_path: Path) -> Path:
    """A copy of the exported folder, to be edited."""
    return Path(shutil.copytree(exported, tmp_path / "model"))


@pytest.fixture
def refused(ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Refused:
    """Call the command line in an empty folder; it ends with a line on stderr, and `campaign plan` shows its cells."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, code: int = 2) -> str:
        got, out, err = ask(*arguments)
        assert (got, err.count("\n")) == (code, 1) and (out == "" or "plan" in arguments), err
        return err

    return call
