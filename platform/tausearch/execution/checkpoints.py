"""The checkpoints of trials in a run directory: find, check and remove them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from tausearch.runs import DrivenDirectory, RunDirectory, Storage, TrialSummary
from trainables.state import check_state, damaged_files

_CHECKPOINTS = "checkpoint_*"  # folders, in that of their trial


def newest_checkpoint(directory: RunDirectory, number: int) -> Path | None:
    """Return the folder of a trial's newest readable checkpoint over all attempts; None if there is none.

    A driver that was killed while it copied a checkpoint leaves an unreadable one.
    """
    for folder in sorted(_checkpoints(directory, number), key=lambda path: path.stat().st_mtime, reverse=True):
        if check_state(folder, directory.blobs(number)):
            return folder
    return None


def given_checkpoint(directory: RunDirectory, number: int) -> Path:
    """Return the folder of a checkpoint from which a trial is to start in place of its first task; it is made."""
    folder = directory.ray / "attempt-0-given" / directory.trial_folder(directory.name, number) / "checkpoint_000000"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def ready(directory: RunDirectory, trials: Iterable[TrialSummary]) -> list[str]:
    """Remove the checkpoints of ended trials that a killed driver left, and rename damaged files of the others.

    A checkpoint with a renamed file is passed over: the trial continues from the one before it, or begins anew.

    Returns:
        A line for every file that was renamed.
    """
    lines = []
    for trial in trials:
        if trial.status != "running":
            remove_checkpoints(directory, trial.number)
            continue
        while folder := newest_checkpoint(directory, trial.number):
            damaged = damaged_files(folder, directory.blobs(trial.number))
            if not damaged:
                break
            for path in damaged:
                path.rename(path.with_name(f"{path.name}.damaged"))
                lines.append(f"trial {trial.number}: {path} is damaged and was put aside; what came before it is used")
    return lines


def remove_older(newest: Path) -> None:
    """Remove all checkpoints of a trial but the newest two: the newest may be incomplete.

    Tune could remove them, but would then write and copy a snapshot of all trials several times for every trial.
    """
    with suppress(OSError):  # removed at the end of the trial
        older = sorted(path for path in newest.parent.glob(_CHECKPOINTS) if path.name < newest.name)
        for folder in older[:-1]:
            shutil.rmtree(folder, ignore_errors=True)


def remove_checkpoints(directory: RunDirectory, number: int) -> None:
    """Remove the checkpoints of a trial that has ended, the files that they share, and the trial's own folders.

    Empty folders would be listed again for every later trial.
    """
    for folder in list(_folders(directory, number)):
        for checkpoint in list(folder.glob(_CHECKPOINTS)):
            shutil.rmtree(checkpoint, ignore_errors=True)
        with suppress(OSError):  # something else lies in it
            folder.rmdir()
    shutil.rmtree(directory.blobs(number), ignore_errors=True)


def _checkpoints(directory: RunDirectory, number: int) -> Iterator[Path]:
    """Yield a trial's checkpoints."""
    for folder in _folders(directory, number):
        yield from folder.glob(_CHECKPOINTS)


def _folders(directory: RunDirectory, number: int) -> Iterator[Path]:
    """Yield a trial's folders, in those of its run and of the campaigns that drove the run."""
    homes: tuple[DrivenDirectory, ...] = (directory.run, *Storage(directory.run.path.parent).campaigns())
    for home in homes:
        name = home.trial_folder(directory.name, number)
        yield from home.ray.glob(f"attempt-*/{name}")
        # Tune appends `_` and four letters if the folder exists, which can happen when a start is slow.
        yield from home.ray.glob(f"attempt-*/{name}_*")
