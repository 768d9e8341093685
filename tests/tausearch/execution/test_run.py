"""What a run hands to its trials, and how far they are in their task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tausearch.execution import Run, run as run_module
from tausearch.execution.run import Epochs
from tausearch.runs import SearchSpec, Storage, TrialTable
from tausearch.runs.creation import make_run_directory
from tausearch.studies import FixedSearcher
from tests.support.runs.trials import make_trial, run_of


def test_a_started_trial_goes_on_after_its_tasks_and_a_new_one_begins(spec: SearchSpec, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    spec, directory = make_run_directory(spec, storage)
    run = Run(spec, storage, directory, FixedSearcher([]), TrialTable([make_trial(0, tasks=1)]))
    first, second = (run.config(number, {"alpha": 1.0, "lr": 0.1}) for number in range(2))
    assert (first.tasks_done, second.tasks_done) == (1, 0)
    assert [len(run.summary(number, 0, {"lr": 0.1}).rows) for number in range(2)] == [1, 0]
    assert [each.checkpoints for each in (first, second)] == [str(directory.checkpoints(number)) for number in (0, 1)]
    assert (second.cache, second.hyperparameters) == (str(storage.cache), {**spec.fixed, "alpha": 1.0, "lr": 0.1})


def test_a_run_goes_on_where_a_trial_under_way_may_lead_to_another(
    spec: SearchSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: Iterator[object] = iter([(0, {}), None, (1, {}), None])
    searcher = FixedSearcher([])
    monkeypatch.setattr(searcher, "next", lambda: next(found))
    run = run_of(spec, searcher)
    assert [run.next_trial() for _ in range(3)] == [(0, {}), None, (1, {})] and not run.has_ended
    for number in (0, 1):
        run.finish(number, "complete", 50.0)
    assert run.next_trial() is None and run.has_ended


def test_a_run_is_not_over_while_its_last_trial_is_under_way(spec: SearchSpec) -> None:
    run, ended = run_of(spec, FixedSearcher([])), [make_trial(number, value=50.0) for number in range(4)]
    assert run.is_over(ended) and not run.is_over([*ended[:3], make_trial(3, tasks=2)]) and not run.is_over(ended[:3])


def test_epochs_of_a_task_that_is_done_are_not_shown(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, directory = make_run_directory(spec, Storage(tmp_path))
    directory.checkpoints(3).mkdir(parents=True)
    said, epochs = directory.checkpoints(3) / "epoch.txt", Epochs(directory)
    said.write_text("2 7 50\n")
    assert epochs(make_trial(3, tasks=1)) == "epoch 7/50"
    said.write_text("2 8 50\n")
    assert epochs(make_trial(3, tasks=1)) == "epoch 7/50"  # a display asks four times a second
    monkeypatch.setattr(run_module, "_EPOCHS_HOLD", 0.0)
    assert epochs(make_trial(3, tasks=1)) == "epoch 8/50"
    assert epochs(make_trial(3, tasks=2)) == "" == epochs(make_trial(4, tasks=0))
