"""The checkpoints of a trial: its state after each task, in a folder with the constants that they share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from trainables.state.contents import State
from trainables.state.files import Manifest, check_state, manifest_of, read_state, write_state
from trainables.state.heartbeat import make_trial_folder

_KEPT = 2
"""The record may lack the task of the newest checkpoint. Its trial then goes on from the one before."""


class Checkpoints:
    """Writes a trial's state after each task into the trial's folder, and keeps the newest two; None writes nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._manifest: Manifest = {}

    def read(self, tasks: int) -> State | None:
        """Return the state of the newest whole checkpoint after at most so many tasks, None if there is none."""
        if self.folder is None or (found := newest_checkpoint(self.folder, tasks)) is None:
            return None
        self._manifest = manifest_of(found)
        return read_state(found, self.folder)

    def write(self, tasks: int, state: State) -> None:
        """Write the state after so many tasks, whole or not at all, and remove older ones; see `make_trial_folder`."""
        if self.folder is None:
            return
        path = checkpoint_after(tasks, self.folder)
        make_trial_folder(self.folder)
        path.mkdir(exist_ok=True)
        self._manifest = write_state(path, state, self.folder, self._manifest)
        shutil.rmtree(checkpoint_after(tasks - _KEPT, self.folder), ignore_errors=True)


def checkpoint_after(tasks: int, folder: Path) -> Path:
    """Return the folder of a trial's checkpoint after so many tasks."""
    return folder / f"task-{tasks:03d}"


def newest_checkpoint(folder: Path, tasks: int) -> Path | None:
    """Return the first of `whole_checkpoints`, None if there is none."""
    return next(whole_checkpoints(folder, tasks), None)


def whole_checkpoints(folder: Path, tasks: int) -> Iterator[Path]:
    """Yield a trial's checkpoints after at most so many tasks that `read_state` would read, newest first."""
    for number in range(tasks, 0, -1):
        path = checkpoint_after(number, folder)
        if check_state(path, folder):
            yield path
