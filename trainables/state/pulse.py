"""Where a trial is inside its task, for whoever watches: a few bytes in its folder, written now and then.

Nothing is computed from them, and nothing waits for them: a trial that cannot write them goes on.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

INTERVAL = 1.0  # seconds between two writes: quick tasks leave none, and no file system is kept busy by long ones
_FILE = "epoch.txt"


class Epoch(NamedTuple):
    """How far a trial is: so many epochs of a task, counted from 1, are behind it, of how many."""

    task: int
    done: int
    of: int


class Pulse:
    """Says in a trial's folder how many epochs of its task are done.

    Args:
        folder: Folder of the trial; None says nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            with suppress(OSError):  # of an earlier attempt
                (folder / _FILE).unlink(missing_ok=True)
        self._last = time.monotonic()

    def __call__(self, epoch: Epoch) -> None:
        """Take note that an epoch is done; written if the last time was a while ago."""
        if self.folder is None or time.monotonic() - self._last < INTERVAL:
            return
        self._last = time.monotonic()
        with suppress(OSError):  # what is wrong with the storage is found by those who need it
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / _FILE).write_text(" ".join(map(str, epoch)) + "\n", encoding="ascii")


SILENT = Pulse(None)


def read_pulse(folder: Path) -> Epoch | None:
    """Return how far a trial says that it is; None if it has not said so, or is just about to."""
    try:
        task, done, of = map(int, (folder / _FILE).read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return None
    return Epoch(task, done, of)
