"""Notice a full or missing storage in time, so that a run stops in order and loses nothing."""

from __future__ import annotations

import errno
import os
import time

from ray.exceptions import RayTaskError

from tausearch.runs import DrivenDirectory, shortage

_EVERY = 2.0  # seconds
_STORAGE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE, errno.ENOTCONN}


class StorageWatch:
    """Checks the storage of a run or campaign, at most every two seconds. A problem that was found stays."""

    def __init__(self, home: DrivenDirectory) -> None:
        self.home = home
        self.problem: str | None = None
        self._next = 0.0

    def look(self) -> bool:
        """Check the storage; returns whether there is a problem."""
        if self.problem is None and time.monotonic() > self._next:
            self._next = time.monotonic() + _EVERY
            self._find_problem()
        return self.problem is not None

    def is_storage_error(self, error: BaseException | None) -> bool:
        """Note an error of writing; returns whether the storage has caused it."""
        cause = error.cause if isinstance(error, RayTaskError) else error
        if not isinstance(cause, OSError):
            return False
        if self.problem is None:
            closed = not os.access(self.home.path, os.W_OK)  # as after the end of a Kerberos ticket, on NFS
            self._find_problem(str(cause) if closed or cause.errno in _STORAGE_ERRORS else None)
        return self.problem is not None

    def _find_problem(self, otherwise: str | None = None) -> None:
        """Note the problem of the storage in one line: that it is gone, full or unreadable, or the given one."""
        try:
            problem = shortage(self.home.path) if self.home.exists() else "is gone"
        except OSError as error:
            problem = error.strerror or str(error)
        if problem or otherwise:
            self.problem = f"storage {self.home.path}: {problem or otherwise}"
