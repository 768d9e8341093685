"""The folder in which a driver's trials leave their checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from tausearch.files import RunDirectory
from tausearch.runner import _next_attempt, newest_checkpoint


def test_no_two_drivers_share_a_folder_also_of_searches_of_one_name(tmp_path: Path) -> None:
    here, there = (RunDirectory(tmp_path / root / "s") for root in ("here", "there"))
    first = _next_attempt(here)
    (here.ray / first).mkdir(parents=True)
    second = _next_attempt(here)
    assert first.startswith("attempt-1-") and second.startswith("attempt-2-")
    assert len({first, second, _next_attempt(there)}) == 3


def test_the_newest_checkpoint_that_can_be_read_is_used(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert newest_checkpoint(directory, 0) is None
    folders = []
    for time, number in ((100, 0), (200, 1), (300, 2)):
        folders.append(directory.ray / _next_attempt(directory) / "trial-00000" / f"checkpoint_{number:06d}")
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
