"""What tests of the platform share: the specification of a search, and finished runs that are built once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tausearch.runs import SearchSpec, Storage, open_storage
from tests.support.runs.built_runs import BuiltRuns
from tests.support.runs.trials import search_spec


@pytest.fixture(scope="session", autouse=True)
def _built_runs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give finished runs a folder, the same one for all workers of pytest-xdist."""
    own = tmp_path_factory.getbasetemp()
    BuiltRuns.folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "built-runs"


@pytest.fixture
def spec() -> SearchSpec:
    return search_spec()


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path / "runs", write=True)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Pretend that torch finds a number of GPUs on this machine."""

    def pretend(count: int) -> None:
        monkeypatch.setattr("torch.cuda.is_available", lambda: count > 0)
        monkeypatch.setattr("torch.cuda.device_count", lambda: count)

    return pretend


@pytest.fixture
def no_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let compositions be evaluated without MLflow, which takes seconds to start."""
    monkeypatch.setattr("tausearch.models.try_to_log", lambda *_: None)


@pytest.fixture
def no_insight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs end without importances and figures, which take most of the time."""
    monkeypatch.setattr("tausearch.api.finishing._analyse_search", lambda *_: ({}, []))
    monkeypatch.setattr("tausearch.presentation.draw_final", lambda *_: [])


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let intervals of importances come from 3 resamples of the trials; 100 take most of the time of a report."""
    monkeypatch.setattr("tausearch.runs.search_analysis._RESAMPLES", 3)


@pytest.fixture(scope="session")
def packed_plotly() -> str:
    from tausearch.reports.html.page import _packed_plotly  # plotly, which few tests need

    return _packed_plotly()


@pytest.fixture
def quick_report(few_resamples: None, packed_plotly: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all pages take the same plotly.js, packed once."""
    monkeypatch.setattr("tausearch.reports.html.page._packed_plotly", lambda: packed_plotly)
