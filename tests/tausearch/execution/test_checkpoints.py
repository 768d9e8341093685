"""Which checkpoints of a run's trials are put aside or removed before it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tausearch.execution.checkpoints import prepare_checkpoints, remove_checkpoints
from tausearch.runs import RunDirectory, TrialSummary
from tests.support.runs.trials import make_trial, search_spec
from trainables.state import STATE_FILE, Checkpoints, State, checkpoint_after, newest_checkpoint


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path)


def write_tasks(directory: RunDirectory, number: int, tasks: int) -> Path:
    """Write what a trial has after some tasks; returns its folder."""
    checkpoints = Checkpoints(directory.checkpoints(number))
    for task in range(1, tasks + 1):
        checkpoints.write(task, State({"weight": torch.ones(50)}, {"e": torch.ones(9)}, {"task": task}))
    return directory.checkpoints(number)


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def test_damaged_checkpoints_are_named_and_renamed_and_those_of_ended_trials_removed(directory: RunDirectory) -> None:
    trials = [make_trial(0, tasks=3), make_trial(1, tasks=3), TrialSummary(2, 2, "failed", {})]
    first, second, third = (write_tasks(directory, number, 3) for number in (0, 1, 2))
    assert prepare_checkpoints(directory, search_spec(), trials[:2]) == [] and newest_checkpoint(third, 3) is not None
    damaged = checkpoint_after(3, first) / STATE_FILE
    flip_a_bit(damaged)
    (constants,) = second.glob("*.safetensors")
    flip_a_bit(constants)  # of both checkpoints
    assert prepare_checkpoints(directory, search_spec(), trials) == [
        f"digits-ita-lora-1, trial 0: {damaged} is damaged and was put aside; what came before it is used",
        f"digits-ita-lora-1, trial 1: {constants} is damaged and was put aside; what came before it is used",
        "digits-ita-lora-1, trial 1: no checkpoint of its 3 tasks; it begins anew",
    ]
    assert newest_checkpoint(first, 3) == checkpoint_after(2, first)
    assert newest_checkpoint(second, 3) is None and not third.exists()
    assert (
        prepare_checkpoints(directory, search_spec(), [trials[0], TrialSummary(4, 4, "running", {})]) == []
    )  # the latter has no task yet


@pytest.mark.parametrize("also", [False, True])
def test_a_damaged_checkpoint_ahead_of_the_record_is_put_aside_too(directory: RunDirectory, also: bool) -> None:
    folder = write_tasks(directory, 0, 3)
    third, second = (checkpoint_after(tasks, folder) / STATE_FILE for tasks in (3, 2))
    flip_a_bit(third)
    if also:
        flip_a_bit(second)
    lines = prepare_checkpoints(directory, search_spec(), [make_trial(0, tasks=2)])
    assert [path.exists() for path in (third, second)] == [False, not also]
    assert len(lines) == (3 if also else 1)


def test_behind_a_whole_one_ahead_of_the_record_the_next_is_looked_at(directory: RunDirectory) -> None:
    folder = write_tasks(directory, 0, 3)
    flip_a_bit(checkpoint_after(2, folder) / STATE_FILE)
    assert len(prepare_checkpoints(directory, search_spec(), [make_trial(0, tasks=2)])) == 2
    assert newest_checkpoint(folder, 3) == checkpoint_after(3, folder)


def test_the_checkpoints_of_other_trials_stay(directory: RunDirectory) -> None:
    folders = [write_tasks(directory, number, 1) for number in (1, 11, 101)]
    remove_checkpoints(directory, 1)
    remove_checkpoints(directory, 2)  # it has none
    assert [folder.exists() for folder in folders] == [False, True, True]
    assert folders[1] == directory.path / "state" / "trial-00011"
