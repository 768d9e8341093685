"""What searches and final runs tell their trials about where things lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from tausearch.execution import Run
from tausearch.execution.run import Epochs
from tausearch.runs import SearchSpec, Storage, TrialTable
from tausearch.runs.creation import create
from tausearch.studies import FixedSearcher
from tests.support.runs.trials import final_spec, make_trial
from trainables.state import State, write_state


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path)


def run_of(spec: SearchSpec, storage: Storage, trials: TrialTable) -> Run:
    spec, directory = create(spec, storage)
    return Run(spec, storage, directory, FixedSearcher([]), trials)


def test_a_search_keeps_state_and_leaves_no_task_vectors(spec: SearchSpec, storage: Storage) -> None:
    run = run_of(spec, storage, TrialTable([make_trial(0, tasks=1)]))
    checkpoint = run.directory.ray / "attempt-1" / "trial-00000" / "checkpoint_000000"
    checkpoint.mkdir(parents=True)
    write_state(checkpoint, State(values={"task": 1}))
    first, second = (run.config(number, {"alpha": 1.0, "lr": 0.1}) for number in range(2))
    assert (first.resume_from, second.resume_from) == (str(checkpoint), None)
    assert first.blobs == str(run.directory.path / "state" / "trial-00000")
    assert second.blobs == str(run.directory.path / "state" / "trial-00001")
    assert (first.cache, first.artifacts, first.seed) == (str(storage.cache), None, spec.seed)
    assert second.hyperparameters == {**spec.fixed, "alpha": 1.0, "lr": 0.1}


def test_a_trial_that_has_not_started_takes_up_no_checkpoint(spec: SearchSpec, storage: Storage) -> None:
    run = run_of(spec, storage, TrialTable())
    left_behind = run.directory.ray / "attempt-1" / "trial-00000" / "checkpoint_000000"
    left_behind.mkdir(parents=True)
    write_state(left_behind, State(values={"task": 1}))
    assert run.config(0, {"alpha": 1.0, "lr": 0.1}).resume_from is None


def test_a_final_run_leaves_task_vectors_seed_by_seed(spec: SearchSpec, storage: Storage) -> None:
    final = final_spec(spec, name="f", seeds=(5, 6), trials=2)
    run = run_of(final, storage, TrialTable())
    config = run.config(1, {})
    assert (config.trial, config.seed, config.purpose) == (1, 6, "final")
    assert config.blobs == str(run.directory.blobs(1)) and config.artifacts == str(run.directory.artifacts / "seed_6")


def test_a_pilot_leaves_nothing_and_a_cache_of_no_size_is_none(spec: SearchSpec, storage: Storage) -> None:
    pilot = spec.trial(0, dict(spec.start), cache=storage.cache)
    assert (pilot.artifacts, pilot.blobs, pilot.cache) == (None, None, str(storage.cache))
    assert spec.model_copy(update={"cache_size": 0}).trial(0, {}, cache=storage.cache).cache is None


def test_epochs_of_a_task_that_is_done_are_not_shown(spec: SearchSpec, storage: Storage) -> None:
    spec, directory = create(spec, storage)
    directory.blobs(3).mkdir(parents=True)
    said = directory.blobs(3) / "epoch.txt"
    said.write_text("1 2 50\n")
    assert Epochs(directory)(make_trial(3, tasks=0)) == "epoch 2/50"
    said.write_text("2 7 50\n")
    assert Epochs(directory)(make_trial(3, tasks=1)) == "epoch 7/50"
    assert Epochs(directory)(make_trial(3, tasks=2)) == "" == Epochs(directory)(make_trial(4, tasks=0))
    epochs = Epochs(directory)
    assert epochs(make_trial(3, tasks=1)) == "epoch 7/50"
    said.write_text("2 8 50\n")
    assert epochs(make_trial(3, tasks=1)) == "epoch 7/50"  # a display asks four times a second
