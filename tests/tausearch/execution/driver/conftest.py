"""Fixtures of the driver's tests: nothing of Ray, Tune or MLflow runs in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tausearch.execution import Run, driver as driver_module
from tausearch.execution.interrupt import Interrupt, interruptible
from tausearch.runs import SearchSpec
from tests.tausearch.execution.driver.world import MlflowWriter, World, opened


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    watches = ("raylet_watched", "head_watched", "nodes_checked", "nodes_watched")
    for name in ("ray_session", *watches, "run_on_tune"):
        monkeypatch.setattr(driver_module, name, getattr(made, name))
    monkeypatch.setattr(driver_module, "cluster_summary", lambda: "joined 3 nodes")
    monkeypatch.setattr(driver_module, "cluster_capacity", lambda: (2.0, 0.0))
    monkeypatch.setattr("tausearch.tracking.mlflow_callback.MlflowWriter", MlflowWriter)
    monkeypatch.setattr("tausearch.tracking.mlflow_callback.MlflowProcess", lambda: SimpleNamespace(open=None))
    monkeypatch.setattr(MlflowWriter, "closed", [])
    return made


@pytest.fixture
def interrupt() -> Iterator[Interrupt]:
    """The interrupt of the next driver."""
    with interruptible() as made:
        yield made


@pytest.fixture
def run(spec: SearchSpec, tmp_path: Path) -> Run:
    return opened(spec, tmp_path)
