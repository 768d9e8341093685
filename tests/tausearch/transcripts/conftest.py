"""Fixtures of scenes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from tausearch.presentation.terminal import bars, live
from tests.support.drivers.simulated_tune import Simulation
from tests.support.terminal import Terminal
from tests.tausearch.tracking.memory_store import Store


class Text(SingleFileSnapshotExtension):
    """Keeps each text in a file of its own."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.fixture
def kept(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """The text that is kept of a test."""
    return snapshot.use_extension(Text)


@pytest.fixture(autouse=True)
def _no_line_of_slow_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print what a fast machine prints: a slow one adds a line whenever work has taken long."""
    for module in (bars, live):
        monkeypatch.setattr(module, "PLAIN_INTERVAL", float("inf"))


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Simulation:
    return Simulation().installed(monkeypatch, tmp_path_factory.mktemp("tune"))


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, simulation: Simulation) -> Terminal:
    return Terminal(tmp_path, monkeypatch)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    """MLflow in memory: what the process that writes to MLflow does is done in this one."""
    from tausearch.tracking import (  # they import MLflow, which takes seconds
        benchmark_tags,
        mlflow_callback,
        mlflow_run,
    )

    made = Store()
    for module in (mlflow_run, benchmark_tags):
        monkeypatch.setattr(module, "open_store", lambda storage, uri, benchmark: (made, "1"))
    here = SimpleNamespace(open=mlflow_run.MlflowRun, log_benchmark_table=benchmark_tags.log_benchmark_table)
    monkeypatch.setattr(mlflow_callback, "MlflowProcess", lambda: here)
    return made
