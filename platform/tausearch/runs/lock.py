"""One driver at a time: a lock on the run directory, which falls with the process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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

    A command that is refused leaves no lock file where there was none.

    Raises:
        InputError: If there is nothing of that name, another process drives it, or its folder cannot be written.
    """
    if not driven.lock_file.parent.is_dir():  # the lock would make it
        raise InputError(f"no {kind} named {driven.name!r} in {driven.lock_file.parent.parent}")
    known = driven.lock_file.exists()
    lock = FileLock(driven.lock_file, thread_local=False)  # a thread of the driver may end a run
    try:
        lock.acquire(timeout=1)  # seconds: whoever asks `is_driven` holds it for a moment
    except Timeout:
        raise InputError(f"{kind} {driven.name!r} is being driven by another process") from None
    except OSError as error:
        raise InputError(f"{driven.lock_file}: cannot be locked ({error.strerror})") from error
    try:
        yield
    except InputError:
        if not known:  # while it is held: whoever waits for this file sees that it is gone, and makes another
            with suppress(OSError):
                driven.lock_file.unlink()
        raise
    finally:
        lock.release()


def is_driven(driven: Driven) -> bool:
    """Whether a living process drives it; whoever may only read can ask, and no other reader is in the way."""
    try:
        file = os.open(driven.lock_file, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # nobody has driven it yet, or its folder cannot be read
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(file)
    return False
