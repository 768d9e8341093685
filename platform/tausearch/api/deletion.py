"""Delete the directory of a run, completely or not at all. Its runs in MLflow stay."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tausearch.runs import RunDirectory, driver_lock, read_spec
from trainables.errors import InputError


def delete_run(directory: RunDirectory) -> None:
    """Delete the directory of a run. It gets a hidden name first, so that an interrupted deletion leaves no half run.

    Raises:
        InputError: If there is no such run, a process drives it, or its directory is a link or cannot be deleted.
    """
    read_spec(directory)
    if directory.path.is_symlink():
        raise InputError(f"run directory {directory.path}: is a link; delete what it leads to, then the link")
    if (closed := _closed_folder(directory.path)) is not None:
        raise InputError(f"run directory {directory.path}: {closed} in it cannot be changed; nothing was deleted")
    doomed = directory.path.with_name(f".{directory.name}.deleted")
    try:
        with driver_lock(directory):
            shutil.rmtree(doomed, ignore_errors=True)
            directory.path.rename(doomed)
        shutil.rmtree(doomed)
    except OSError as error:
        raise InputError(f"run directory {directory.path}: cannot be deleted ({error.strerror})") from error


def _closed_folder(folder: Path) -> Path | None:
    """Return the first folder in a tree whose content this user cannot remove; None if there is none."""
    rights = os.R_OK | os.W_OK | os.X_OK
    closed: list[OSError] = []
    for path, _, _ in os.walk(folder, onerror=closed.append):
        if not os.access(path, rights):
            return Path(path)
    return Path(closed[0].filename) if closed else None


def size_of(directory: RunDirectory) -> int:
    """Return the size of all files of a run, bytes."""
    return sum(path.stat().st_size for path in directory.path.rglob("*") if path.is_file())
