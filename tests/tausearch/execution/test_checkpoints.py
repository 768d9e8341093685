"""Which checkpoints of a trial are found, and which are kept."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from tausearch.execution.checkpoints import newest_checkpoint, remove_checkpoints, remove_older, set_aside_damaged
from tausearch.runs import RunDirectory, TrialSummary
from trainables.state import STATE_FILE, State, write_state


def test_the_newest_checkpoint_that_can_be_read_is_used(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert newest_checkpoint(directory, 0) is None
    folders = []
    for time, number in ((100, 0), (200, 1), (300, 2)):
        folders.append(directory.ray / f"attempt-{number}" / "trial-00000" / f"checkpoint_{number:06d}")
        folders[-1].mkdir(parents=True)
        write_state(folders[-1], State(values={"tasks": number}))
        os.utime(folders[-1], (time, time))
    assert newest_checkpoint(directory, 0) == folders[2]
    whole = (folders[2] / STATE_FILE).read_bytes()
    (folders[2] / STATE_FILE).write_bytes(whole[: len(whole) // 2])  # the driver was killed while it was copied
    os.utime(folders[2], (300, 300))
    assert newest_checkpoint(directory, 0) == folders[1] and newest_checkpoint(directory, 1) is None


def test_the_newest_is_the_last_written_whatever_its_number(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    written = {"attempt-10": ("checkpoint_000000", 300), "attempt-9": ("checkpoint_000004", 200)}  # counted anew
    for attempt, (name, time) in written.items():
        folder = directory.ray / attempt / "trial-00000" / name
        folder.mkdir(parents=True)
        write_state(folder, State(values={"task": 1}))
        os.utime(folder, (time, time))
    newest = newest_checkpoint(directory, 0)
    assert newest is not None and newest.parts[-3] == "attempt-10"


def test_a_checkpoint_needs_the_constants_of_its_trial(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    blobs, state = directory.blobs(7), State(values={"task": 1})
    folders = [directory.ray / "attempt-1" / "trial-00007" / f"checkpoint_{number:06d}" for number in range(3)]
    for time, folder in enumerate(folders):
        folder.mkdir(parents=True)
        constant = {f"expert/{t}": torch.full((8,), float(t)) for t in range(time + 1)}
        write_state(folder, State(constant=constant), blobs)
        os.utime(folder, (100 + time, 100 + time))
    assert blobs == tmp_path / "state" / "trial-00007" and len(list(blobs.iterdir())) == 3
    assert newest_checkpoint(directory, 7) == folders[2]
    max(blobs.iterdir(), key=lambda path: path.stat().st_size).unlink()  # the newest one's
    assert newest_checkpoint(directory, 7) == folders[1]
    (directory.blobs(8)).mkdir()
    write_state(folders[0], state)
    remove_checkpoints(directory, 7)
    assert not blobs.exists() and directory.blobs(8).exists() and not any(folder.exists() for folder in folders)


def test_a_checkpoint_that_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    folders = [directory.ray / "attempt-1" / "trial-00000" / f"checkpoint_{number:06d}" for number in range(2)]
    for time, folder in enumerate(folders):
        folder.mkdir(parents=True)
        write_state(folder, State({"weight": torch.ones(100)}))
        os.utime(folder, (100 + time, 100 + time))
    path = folders[1] / STATE_FILE
    path.write_bytes(path.read_bytes()[:-4])
    os.utime(folders[1], (300, 300))
    assert newest_checkpoint(directory, 0) == folders[0]


def test_damaged_checkpoints_are_named_and_put_aside(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    trials = [TrialSummary(0, 0, "running", {}), TrialSummary(1, 1, "running", {}), TrialSummary(2, 2, "failed", {})]
    for number in (0, 1, 2):
        for task in (1, 2, 3):
            folder = directory.ray / "attempt-1" / f"trial-{number:05d}" / f"checkpoint_{task:06d}"
            folder.mkdir(parents=True)
            write_state(
                folder,
                State({"weight": torch.ones(50)}, {"e": torch.ones(9)}, {"task": task}),
                blobs=directory.blobs(number),
            )
            os.utime(folder, (100 + task, 100 + task))
    assert set_aside_damaged(directory, trials) == []

    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)

    newest = {number: newest_checkpoint(directory, number) for number in (0, 1, 2)}
    for number in (0, 2):
        flip(newest[number] / STATE_FILE)  # type: ignore[operator]
    (constants,) = directory.blobs(1).iterdir()
    flip(constants)  # of all three checkpoints
    path = newest[0] / STATE_FILE  # type: ignore[operator]
    assert set_aside_damaged(directory, trials) == [
        f"trial 0: {path} is damaged and was put aside; what came before it is used",
        f"trial 1: {constants} is damaged and was put aside; what came before it is used",
    ]
    assert newest_checkpoint(directory, 0) == path.parent.with_name("checkpoint_000002")
    assert newest_checkpoint(directory, 1) is None
    assert newest_checkpoint(directory, 2) == newest[2]  # nobody continues it
    assert set_aside_damaged(directory, trials) == []


def test_folders_that_tune_has_renamed_are_looked_at_too(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    for time, name in ((100, "trial-00001_b399"), (200, "trial-00011"), (300, "trial-000011")):
        folder = directory.ray / "attempt-1" / name / "checkpoint_000001"
        folder.mkdir(parents=True)
        write_state(folder, State(values={"tasks": 1}))
        os.utime(folder, (time, time))
    found = newest_checkpoint(directory, 1)
    assert found is not None and found.parent.name == "trial-00001_b399"


def test_the_newest_two_of_a_running_trial_are_kept(tmp_path: Path) -> None:
    for number in range(12):
        folder = tmp_path / f"checkpoint_{number:06d}"
        folder.mkdir()
        (folder / STATE_FILE).touch()
        remove_older(folder)
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            f"checkpoint_{kept:06d}" for kept in range(max(0, number - 1), number + 1)
        ]
    remove_older(tmp_path / "gone" / "checkpoint_000003")  # with its storage, which the next write will notice
