"""Which checkpoints of a trial are found, and which are kept."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from tausearch.checkpoints import newest_checkpoint, remove_older
from tausearch.files import RunDirectory


def test_the_newest_checkpoint_that_can_be_read_is_used(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert newest_checkpoint(directory, 0) is None
    folders = []
    for time, number in ((100, 0), (200, 1), (300, 2)):
        folders.append(directory.ray / f"attempt-{number}" / "trial-00000" / f"checkpoint_{number:06d}")
        folders[-1].mkdir(parents=True)
        torch.save({"tasks": number}, folders[-1] / "state.pt")
        os.utime(folders[-1], (time, time))
    assert newest_checkpoint(directory, 0) == folders[2]
    whole = (folders[2] / "state.pt").read_bytes()
    (folders[2] / "state.pt").write_bytes(whole[: len(whole) // 2])  # the driver was killed while it was copied
    os.utime(folders[2], (300, 300))
    assert newest_checkpoint(directory, 0) == folders[1] and newest_checkpoint(directory, 1) is None


def test_folders_that_tune_has_renamed_are_looked_at_too(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    for time, name in ((100, "trial-00001_b399"), (200, "trial-00011"), (300, "trial-000011")):
        folder = directory.ray / "attempt-1" / name / "checkpoint_000001"
        folder.mkdir(parents=True)
        torch.save({"tasks": 1}, folder / "state.pt")
        os.utime(folder, (time, time))
    found = newest_checkpoint(directory, 1)
    assert found is not None and found.parent.name == "trial-00001_b399"


def test_the_newest_two_of_a_running_trial_are_kept(tmp_path: Path) -> None:
    for number in range(12):
        folder = tmp_path / f"checkpoint_{number:06d}"
        folder.mkdir()
        (folder / "state.pt").touch()
        remove_older(folder)
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            f"checkpoint_{kept:06d}" for kept in range(max(0, number - 1), number + 1)
        ]
    remove_older(tmp_path / "gone" / "checkpoint_000003")  # with its storage, which the next write will notice
