"""What the observer makes of Tune's events, in the order in which Tune has them."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.execution import StorageWatch
from tausearch.execution.observer import Observer
from tausearch.runs import RunDirectory, TrialSummary
from tausearch.studies import FixedSearcher
from tests.support.runs.trials import dispatcher_of, search_spec

TRIAL = SimpleNamespace(
    config={"run": "s", "trial": 0, "seed": 0, "hyperparameters": {"lr": 0.1}},
    error_file=None,
    pickled_error_file=None,
)


class Heard:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.trials: list[TrialSummary] = []

    def trial_changed(self, trial: TrialSummary) -> None:
        self.trials.append(trial)


def result(task: int, *, done: bool = False, **more: Any) -> dict[str, Any]:
    return {"task": float(task), "val/average_accuracy": 50.0, "done": done, **more}


LAST = result(2, done=True, **{"val/final_accuracy": 50.0})


def observing(*listeners: Heard, home: Path) -> Observer:
    """An observer of one run, which is called `s`."""
    dispatcher = dispatcher_of(search_spec().model_copy(update={"name": "s"}), FixedSearcher([]), listeners)
    return Observer(dispatcher, lambda: None, StorageWatch(RunDirectory(home)))


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def observer(heard: Heard, tmp_path: Path) -> Observer:
    (tmp_path / "run.yaml").touch()
    return observing(heard, home=tmp_path)


@pytest.mark.parametrize(
    "last, status",
    [(LAST, "complete"), (result(2, done=True), "pruned"), (result(2, done=True, diverged="at task 2"), "diverged")],
)
def test_the_end_is_known_with_the_last_result_and_not_only_once_tune_has_saved_it(
    observer: Observer, heard: Heard, last: dict[str, Any], status: str
) -> None:
    observer.on_trial_start(0, [], TRIAL)
    observer.on_trial_result(0, [], TRIAL, result(1))
    observer.on_trial_result(0, [], TRIAL, last)
    assert [trial.status for trial in heard.trials] == ["running", "running", status]
    assert heard.trials[-1].tasks_done == (1 if status == "diverged" else 2)


def test_a_process_that_dies_while_the_last_result_is_saved_changes_nothing(observer: Observer, heard: Heard) -> None:
    observer.on_trial_result(0, [], TRIAL, LAST)
    told = list(heard.trials)
    observer.on_trial_start(1, [], TRIAL)  # Tune starts it again from the checkpoint before
    observer.on_trial_result(1, [], TRIAL, LAST)
    observer.on_trial_error(2, [], TRIAL)
    assert heard.trials == told and told[0].status == "complete"


def test_a_task_that_is_repeated_takes_the_place_of_its_first_result(observer: Observer, heard: Heard) -> None:
    for task in (1, 2, 2):
        observer.on_trial_result(0, [], TRIAL, result(task, **{"seconds/training": len(heard.trials)}))
    assert [(row["task"], row["seconds/training"]) for row in heard.trials[-1].rows] == [(1, 0), (2, 2)]
    for task in (3, 2):  # it went on from the checkpoint before the last, which was damaged
        observer.on_trial_result(0, [], TRIAL, result(task))
    assert [row["task"] for row in heard.trials[-1].rows] == [1, 2]


def test_once_the_storage_has_failed_only_the_record_is_told(heard: Heard, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").touch()

    class Full(Heard):
        def trial_changed(self, trial: TrialSummary) -> None:
            super().trial_changed(trial)
            raise OSError(errno.ENOSPC, "no space")

    record = Full()
    observer = observing(record, heard, home=tmp_path)
    observer.on_trial_result(0, [], TRIAL, result(1))
    observer.on_trial_result(0, [], TRIAL, LAST)
    assert [trial.tasks_done for trial in record.trials] == [1, 2] and heard.trials == []
