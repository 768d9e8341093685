"""Notice that the storage is full or gone before anything is lost, so that a run can be stopped in order."""

from __future__ import annotations

import errno
import time
from pathlib import Path

from ray.exceptions import RayTaskError

from tausearch.runs import DrivenDirectory, shortage

_EVERY = 2.0  # seconds
_STORAGE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE, errno.ENOTCONN}


class StorageWatch:
    """Looks after the storage of what is driven, at most every two seconds.

    Args:
        home: Its folder, which exists.
    """

    def __init__(self, home: DrivenDirectory) -> None:
        self.home = home
        self.problem: str | None = None
        self._next = 0.0

    def look(self) -> bool:
        """Say whether there is a problem; once found it stays."""
        if self.problem is None and time.monotonic() > self._next:
            self._next = time.monotonic() + _EVERY
            self.problem = find_problem(self.home)
        return self.problem is not None

    def failed(self, error: BaseException | None) -> bool:
        """Take note of an error while something was written; says whether it is one of the storage."""
        cause = error.cause if isinstance(error, RayTaskError) else error
        if not isinstance(cause, OSError):
            return False
        self.problem = self.problem or find_problem(self.home)
        if self.problem is None and cause.errno in _STORAGE_ERRORS:
            self.problem = _line(self.home.path, str(cause))
        return self.problem is not None


def find_problem(home: DrivenDirectory) -> str | None:
    """Return what is wrong with the storage of what is driven, in one line; None if nothing is."""
    try:
        if not home.spec_file.is_file():
            return _line(home.path, "is gone")
        problem = shortage(home.path)
    except OSError as error:
        problem = error.strerror or str(error)
    return None if problem is None else _line(home.path, problem)


def _line(path: Path, problem: str) -> str:
    return f"storage {path}: {problem}"
