"""Room on the disk that holds the runs, and what it means when there is none."""

from __future__ import annotations

import shutil
from pathlib import Path

from trainables.errors import InputError

LEAST_FREE = 64 * 2**20  # bytes that the last checkpoints, the record and the best file surely fit in


class StorageError(RuntimeError):
    """The storage is full or gone; what had been written is there, and the run can be continued."""


def shortage(path: Path) -> str | None:
    """Return in a few words that the disk of a folder is too full for a run; None if it is not.

    Raises:
        OSError: If the folder does not exist any more.
    """
    free = shutil.disk_usage(path).free
    return f"has {free / 1e6:.0f} MB free, needs {LEAST_FREE / 1e6:.0f}" if free < LEAST_FREE else None


def require_space(path: Path) -> None:
    """Make sure that a storage root has room for a run.

    Raises:
        InputError: If the disk of the storage root is too full for a run.
    """
    if problem := shortage(path):
        raise InputError(f"--storage {path}: {problem}")
