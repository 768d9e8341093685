"""One driver at a time: a lock on the run directory, which falls with the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from tausearch.runs.files import RunDirectory
from trainables.errors import InputError


@contextmanager
def driver_lock(directory: RunDirectory) -> Iterator[None]:
    """Hold the run directory, so that there is one driver at a time; the lock falls with the process.

    Raises:
        InputError: If another process drives this run.
    """
    lock = FileLock(directory.lock_file)
    try:
        lock.acquire(timeout=1)  # seconds: whoever asks `is_driven` holds it for a moment
    except Timeout:
        raise InputError(f"run {directory.name!r} is being driven by another process") from None
    try:
        yield
    finally:
        lock.release()


def is_driven(directory: RunDirectory) -> bool:
    """Whether a living process drives this run."""
    if not directory.lock_file.exists():
        return False
    try:
        with FileLock(directory.lock_file, timeout=0):
            return False
    except Timeout:
        return True
