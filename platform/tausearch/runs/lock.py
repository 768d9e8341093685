"""One driver at a time: a lock on the run directory, which falls with the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from filelock import FileLock, Timeout

from trainables.errors import InputError


class Driven(Protocol):
    """What one process drives at a time: a run, or a campaign."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def lock_file(self) -> Path:
        """The lock file that its driver holds as long as it lives."""
        ...


@contextmanager
def driver_lock(driven: Driven, kind: str = "run") -> Iterator[None]:
    """Hold a run or campaign, so that there is one driver at a time; the lock falls with the process.

    Raises:
        InputError: If another process drives it.
    """
    lock = FileLock(driven.lock_file, thread_local=False)  # a thread of the driver may end a run
    try:
        lock.acquire(timeout=1)  # seconds: whoever asks `is_driven` holds it for a moment
    except Timeout:
        raise InputError(f"{kind} {driven.name!r} is being driven by another process") from None
    try:
        yield
    finally:
        lock.release()


def is_driven(driven: Driven) -> bool:
    """Whether a living process drives this run or campaign."""
    if not driven.lock_file.exists():
        return False
    try:
        with FileLock(driven.lock_file, timeout=0):
            return False
    except Timeout:
        return True
