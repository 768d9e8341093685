"""The progress of a trial inside its task: a few bytes in the trial's folder, for display only.

No computation reads them, and a trial that cannot write them goes on.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

INTERVAL = 1.0  # seconds between two writes: quick tasks write nothing, long ones do not load the file system
_FILE = "epoch.txt"


class Epoch(NamedTuple):
    """Progress inside a task (from 1): `done` of `of` epochs have ended."""

    task: int
    done: int
    of: int


def make_trial_folder(folder: Path) -> None:
    """Make a trial's folder in a folder of its run directory.

    Raises:
        OSError: If the storage fails, or the run directory is not there, as on a machine that does not see it. Made on
            the disk of that machine, it would take what nobody finds again.
    """
    for each in (folder.parent, folder):
        each.mkdir(exist_ok=True)


class Heartbeat:
    """Writes into a trial's folder how many epochs of its task are done; without a folder it writes nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            with suppress(OSError):  # the file of an earlier attempt
                (folder / _FILE).unlink(missing_ok=True)
        self._last = time.monotonic()

    def __call__(self, epoch: Epoch) -> None:
        """Report a finished epoch; it is written if the last write is `INTERVAL` seconds ago."""
        if self.folder is None or time.monotonic() - self._last < INTERVAL:
            return
        self._last = time.monotonic()
        with suppress(OSError):  # a broken storage is reported by the writers of checkpoints
            make_trial_folder(self.folder)
            (self.folder / _FILE).write_text(" ".join(map(str, epoch)) + "\n", encoding="ascii")


SILENT = Heartbeat(None)


def read_heartbeat(folder: Path) -> Epoch | None:
    """Return a trial's last report; None if there is none, or it is half written."""
    try:
        task, done, of = map(int, (folder / _FILE).read_text(encoding="ascii").split())
    except (OSError, ValueError):
        return None
    return Epoch(task, done, of)
