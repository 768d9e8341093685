"""A store in memory for the modules that write to MLflow."""

from __future__ import annotations

import pytest

from tausearch.runs import Storage
from tausearch.tracking import benchmark_tags, compositions, mlflow_run
from tests.tausearch.tracking.memory_store import Store


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store()

    def open_store(storage: Storage, uri: str, benchmark: str) -> tuple[Store, str]:
        made.opened.add(uri)
        return made, "1"

    for module in (compositions, mlflow_run, benchmark_tags):
        monkeypatch.setattr(module, "open_store", open_store)
    return made
