"""A signal that comes between making a run and driving it: the driver knows it, and names the command to go on."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch import compose
from tausearch.api import SearchRequest, StoppedError, final_runs, plan_search, retraining, searches
from tausearch.execution import interruptible
from tausearch.runs import open_storage
from tausearch.studies import unsearched_best_file
from tests.support.runs.composable_runs import make_composable_run


def search(root: Path) -> None:
    searches.search("digits", "ita-lora", trials=1, storage=root, tracking="none")


def train(root: Path) -> None:
    best = unsearched_best_file(plan_search(SearchRequest("digits", "ita-lora", storage=root)).spec)
    final_runs.train(best, storage=root, tracking="none")


def retrain(root: Path) -> None:
    storage = open_storage(root / "runs", write=True)
    make_composable_run(storage, "ita")
    with pytest.raises(StoppedError, match="the training of ita-retrained-1 was stopped"):
        compose(["ita"], forget=["task:2"], retrain_later=True, storage=storage.root)


@pytest.mark.parametrize(
    ("module", "run", "driven", "begin"),
    [
        (searches, "SearchRun", "run_search", search),
        (final_runs, "FinalRun", "run_training", train),
        (retraining, "FinalRun", "run_training", retrain),
    ],
)
def test_the_driver_knows_a_signal_that_came_while_its_run_was_opened(
    module: Any,
    run: str,
    driven: str,
    begin: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known: list[int | None] = []

    def drive(*run_and_how: object, **more: object) -> SimpleNamespace:
        with interruptible() as interrupt:
            known.append(interrupt.signal)
        return SimpleNamespace(name="ita-retrained-1", signal=interrupt.signal)

    def opened(*of: object) -> SimpleNamespace:
        signal.raise_signal(signal.SIGTERM)
        return SimpleNamespace()

    monkeypatch.setattr(module, run, opened)
    monkeypatch.setattr(module, driven, drive)
    begin(tmp_path)
    assert known == [signal.SIGTERM]
