"""Where a continued trial starts: at its newest checkpoint that can be read, wherever Tune has put it."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from tausearch.files import RunDirectory
from tausearch.runner import newest_checkpoint


def checkpoint(directory: RunDirectory, folder: str, when: int, whole: bool = True) -> Path:
    path = directory.ray / folder
    path.mkdir(parents=True)
    if whole:
        torch.save({"accuracies": []}, path / "state.pt")
    else:
        (path / "state.pt").write_bytes(b"PK")
    os.utime(path, (when, when))
    return path


def test_the_newest_that_can_be_read_from_whichever_attempt_and_folder(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert newest_checkpoint(directory, 1) is None
    first = checkpoint(directory, "attempt-1/trial-00001/checkpoint_000000", 1)
    assert newest_checkpoint(directory, 1) == first
    # Tune adds a suffix where the folder is there already; these were overlooked once, and trials began anew.
    renamed = checkpoint(directory, "attempt-1/trial-00001_b399/checkpoint_000001", 2)
    checkpoint(directory, "attempt-2/trial-00001/checkpoint_000000", 3, whole=False)
    checkpoint(directory, "attempt-2/trial-00011/checkpoint_000004", 4)
    checkpoint(directory, "attempt-2/trial-000011/checkpoint_000004", 5)
    assert newest_checkpoint(directory, 1) == renamed
