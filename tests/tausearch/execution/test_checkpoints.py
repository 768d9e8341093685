"""Which checkpoints of a trial are found, and which are kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from tausearch.execution.checkpoints import newest_checkpoint, ready, remove_checkpoints, remove_older
from tausearch.runs import RunDirectory, Storage, TrialSummary
from trainables.state import STATE_FILE, State, write_state


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path)


def checkpoint(
    directory: RunDirectory, path: str, time: int, state: State | None = None, blobs: Path | None = None
) -> Path:
    """A checkpoint of a run, last written at a time."""
    folder = directory.ray / path
    folder.mkdir(parents=True, exist_ok=True)
    write_state(folder, state or State({"weight": torch.ones(100)}), blobs)
    os.utime(folder, (time, time))
    return folder


def test_the_last_written_readable_checkpoint_is_used_whatever_its_number(directory: RunDirectory) -> None:
    assert newest_checkpoint(directory, 0) is None
    newest = checkpoint(directory, "attempt-10/trial-00000/checkpoint_000000", 300)
    older = checkpoint(directory, "attempt-9/trial-00000/checkpoint_000004", 200)  # numbers begin anew
    checkpoint(directory, "attempt-1/trial-00000/checkpoint_000009", 100)
    assert newest_checkpoint(directory, 0) == newest and newest_checkpoint(directory, 1) is None
    state = newest / STATE_FILE
    state.write_bytes(state.read_bytes()[:-4])  # the driver was killed while it was copied
    os.utime(newest, (300, 300))
    assert newest_checkpoint(directory, 0) == older


def test_a_checkpoint_needs_the_constants_of_its_trial(directory: RunDirectory) -> None:
    blobs, folders = directory.blobs(7), []
    for number in range(3):
        state = State(constant={f"expert/{t}": torch.full((8,), float(t)) for t in range(number + 1)})
        path = f"attempt-1/trial-00007/checkpoint_{number:06d}"
        folders.append(checkpoint(directory, path, 100 + number, state, blobs))
    assert blobs == directory.path / "state" / "trial-00007" and len(list(blobs.iterdir())) == 3
    assert newest_checkpoint(directory, 7) == folders[2]
    max(blobs.iterdir(), key=lambda path: path.stat().st_size).unlink()  # the newest one's
    assert newest_checkpoint(directory, 7) == folders[1]
    directory.blobs(8).mkdir()
    remove_checkpoints(directory, 7)
    assert not blobs.exists() and directory.blobs(8).exists() and not any(folder.exists() for folder in folders)


def test_no_folder_of_an_ended_trial_is_left_for_later_ones_to_list(directory: RunDirectory) -> None:
    without = directory.ray / "attempt-2" / "trial-00003"  # it ended in its first task
    without.mkdir(parents=True)
    for number in (3, 4):
        checkpoint(directory, f"attempt-1/trial-{number:05d}/checkpoint_000001", 100)
    checkpoint(directory, "attempt-1/trial-00003_b399/checkpoint_000001", 100)
    foreign = directory.ray / "attempt-3" / "trial-00003" / "notes.txt"
    foreign.parent.mkdir(parents=True)
    foreign.touch()
    ready(directory, [TrialSummary(3, 3, "complete", {}), TrialSummary(4, 4, "running", {})])
    left = [directory.ray / "attempt-1/trial-00004", foreign.parent]
    assert sorted(directory.ray.glob("*/*")) == left and foreign.exists()
    assert newest_checkpoint(directory, 4) is not None


def test_damaged_checkpoints_are_named_and_renamed_and_those_of_ended_trials_removed(directory: RunDirectory) -> None:
    trials = [TrialSummary(0, 0, "running", {}), TrialSummary(1, 1, "running", {}), TrialSummary(2, 2, "failed", {})]
    for number in (0, 1, 2):
        for task in (1, 2, 3):
            state = State({"weight": torch.ones(50)}, {"e": torch.ones(9)}, {"task": task})
            path = f"attempt-1/trial-{number:05d}/checkpoint_{task:06d}"
            checkpoint(directory, path, 100 + task, state, directory.blobs(number))
    assert ready(directory, trials[:2]) == [] and newest_checkpoint(directory, 2) is not None

    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)

    newest = newest_checkpoint(directory, 0)
    assert newest is not None
    flip(newest / STATE_FILE)
    (constants,) = directory.blobs(1).iterdir()
    flip(constants)  # of all three checkpoints
    assert ready(directory, trials) == [
        f"trial 0: {newest / STATE_FILE} is damaged and was put aside; what came before it is used",
        f"trial 1: {constants} is damaged and was put aside; what came before it is used",
    ]
    assert newest_checkpoint(directory, 0) == newest.with_name("checkpoint_000002")
    assert newest_checkpoint(directory, 1) is None and newest_checkpoint(directory, 2) is None
    assert ready(directory, trials) == []


def test_folders_that_tune_has_renamed_are_looked_at_too(directory: RunDirectory) -> None:
    renamed = checkpoint(directory, "attempt-2/trial-00001_b399/checkpoint_000001", 100)
    for time, name in ((200, "trial-00011"), (300, "trial-000011")):
        checkpoint(directory, f"attempt-1/{name}/checkpoint_000001", time)
    assert newest_checkpoint(directory, 1) == renamed


def test_the_checkpoints_of_the_campaigns_that_drove_a_run_are_its_own_too(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    run, older, campaign = storage.run("t-digits-ewc"), storage.campaign("s"), storage.campaign("t")
    for each in (older, campaign):
        each.path.mkdir(parents=True)
        each.spec_file.touch()
    name = campaign.trial_folder(run.name, 2)
    checkpoint(RunDirectory(older.path), f"attempt-1/{name}/checkpoint_000001", 200)
    checkpoint(run, "attempt-1/trial-00002/checkpoint_000001", 100)
    state, newest = State({"weight": torch.ones(1)}), campaign.ray / "attempt-1" / name / "checkpoint_000001"
    newest.mkdir(parents=True)
    write_state(newest, state)
    assert newest_checkpoint(run, 2) == newest and newest_checkpoint(storage.run("other"), 2) is None
    remove_checkpoints(run, 2)
    assert not newest.exists() and newest_checkpoint(run, 2) is None


def test_the_newest_two_of_a_running_trial_are_kept(tmp_path: Path) -> None:
    for number in range(12):
        folder = tmp_path / f"checkpoint_{number:06d}"
        folder.mkdir()
        (folder / STATE_FILE).touch()
        remove_older(folder)
        kept = [f"checkpoint_{kept:06d}" for kept in range(max(0, number - 1), number + 1)]
        assert sorted(path.name for path in tmp_path.iterdir()) == kept
    remove_older(tmp_path / "gone" / "checkpoint_000003")  # with its storage, which the next write will notice
