"""What a run hands to its trials, and how far they are in their task."""

from __future__ import annotations

from pathlib import Path

import pytest

from tausearch.execution import Run
from tausearch.execution import run as run_module
from tausearch.execution.run import Epochs
from tausearch.runs import SearchSpec, Storage, TrialTable
from tausearch.runs.creation import create
from tausearch.studies import FixedSearcher
from tests.support.runs.trials import make_trial
from trainables.state import State, write_state


def test_a_started_trial_resumes_from_its_checkpoint_and_a_new_one_from_none(spec: SearchSpec, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    spec, directory = create(spec, storage)
    checkpoints = [directory.ray / "attempt-1" / f"trial-0000{number}" / "checkpoint_000000" for number in (0, 1)]
    for checkpoint in checkpoints:
        checkpoint.mkdir(parents=True)
        write_state(checkpoint, State(values={"task": 1}))
    run = Run(spec, storage, directory, FixedSearcher([]), TrialTable([make_trial(0, tasks=1)]))
    first, second = (run.config(number, {"alpha": 1.0, "lr": 0.1}) for number in range(2))
    assert (first.resume_from, second.resume_from) == (str(checkpoints[0]), None)
    assert [each.blobs for each in (first, second)] == [str(directory.blobs(number)) for number in (0, 1)]
    assert (second.cache, second.hyperparameters) == (str(storage.cache), {**spec.fixed, "alpha": 1.0, "lr": 0.1})


def test_epochs_of_a_task_that_is_done_are_not_shown(
    spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, directory = create(spec, Storage(tmp_path))
    directory.blobs(3).mkdir(parents=True)
    said, epochs = directory.blobs(3) / "epoch.txt", Epochs(directory)
    said.write_text("2 7 50\n")
    assert epochs(make_trial(3, tasks=1)) == "epoch 7/50"
    said.write_text("2 8 50\n")
    assert epochs(make_trial(3, tasks=1)) == "epoch 7/50"  # a display asks four times a second
    monkeypatch.setattr(run_module, "_EPOCHS_HOLD", 0.0)
    assert epochs(make_trial(3, tasks=1)) == "epoch 8/50"
    assert epochs(make_trial(3, tasks=2)) == "" == epochs(make_trial(4, tasks=0))
