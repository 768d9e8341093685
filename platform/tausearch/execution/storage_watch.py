"""Notice a full or missing storage in time, so that a run stops in order and loses nothing."""

from __future__ import annotations

import errno
import time
from pathlib import Path

from ray.exceptions import RayTaskError

from tausearch.runs import DrivenDirectory, shortage

_EVERY = 2.0  # seconds
_STORAGE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE, errno.ENOTCONN}


class StorageWatch:
    """Checks the storage of a run or campaign, at most every two seconds.

    Args:
        home: Its folder, which exists.
    """

    def __init__(self, home: DrivenDirectory) -> None:
        self.home = home
        self.problem: str | None = None
        self._next = 0.0

    def look(self) -> bool:
        """Check the storage; returns whether there is a problem. Once found, a problem stays."""
        if self.problem is None and time.monotonic() > self._next:
            self._next = time.monotonic() + _EVERY
            self.problem = find_problem(self.home)
        return self.problem is not None

    def failed(self, error: BaseException | None) -> bool:
        """Note an error of writing; returns whether the storage has caused it."""
        cause = error.cause if isinstance(error, RayTaskError) else error
        if not isinstance(cause, OSError):
            return False
        self.problem = self.problem or find_problem(self.home)
        if self.problem is None and cause.errno in _STORAGE_ERRORS:
            self.problem = _line(self.home.path, str(cause))
        return self.problem is not None


def find_problem(home: DrivenDirectory) -> str | None:
    """Return the problem of the storage of a run or campaign, in one line; None if there is none."""
    try:
        if not home.spec_file.is_file():
            return _line(home.path, "is gone")
        problem = shortage(home.path)
    except OSError as error:
        problem = error.strerror or str(error)
    return None if problem is None else _line(home.path, problem)


def _line(path: Path, problem: str) -> str:
    return f"storage {path}: {problem}"
