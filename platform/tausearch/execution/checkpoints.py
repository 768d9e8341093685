"""The checkpoints of trials in a run directory: where they are, and which are kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from tausearch.runs import DrivenDirectory, RunDirectory, Storage, TrialSummary
from trainables.state import check_state, damaged_files


def newest_checkpoint(directory: RunDirectory, number: int) -> Path | None:
    """Return the folder of a trial's newest readable checkpoint over all attempts; None if there is none.

    A driver that was killed while a checkpoint was being copied leaves one that cannot: the one before it is used.
    """
    for folder in sorted(_checkpoints(directory, number), key=lambda path: path.stat().st_mtime, reverse=True):
        if check_state(folder, directory.blobs(number)):
            return folder
    return None


def set_aside_damaged(directory: RunDirectory, trials: Iterable[TrialSummary]) -> list[str]:
    """Read the newest checkpoints of unfinished trials and move damaged ones aside.

    A damaged file is renamed, so that whatever it was part of is passed over: the checkpoint before it is used, or the
    trial begins anew.

    Args:
        directory: Of the run.
        trials: All trials that have started.

    Returns:
        A line for every file that was put aside.

    Raises:
        OSError: If the storage fails.
    """
    lines = []
    for number in (trial.number for trial in trials if trial.status == "running"):
        while folder := newest_checkpoint(directory, number):
            damaged = damaged_files(folder, directory.blobs(number))
            if not damaged:
                break
            for path in damaged:
                path.rename(path.with_name(f"{path.name}.damaged"))
                lines.append(f"trial {number}: {path} is damaged and was put aside; what came before it is used")
    return lines


def ready(directory: RunDirectory, trials: Iterable[TrialSummary]) -> list[str]:
    """Remove the checkpoints of ended trials that an earlier driver left, and move damaged ones aside.

    Returns:
        A line for every file that was put aside.

    Raises:
        OSError: If the storage fails.
    """
    known = list(trials)
    for trial in known:
        if trial.status != "running":  # a killed driver has left its checkpoints
            remove_checkpoints(directory, trial.number)
    return set_aside_damaged(directory, known)


def remove_older(newest: Path) -> None:
    """Remove all checkpoints of a trial but the newest two: the newest may be incomplete.

    Tune would do so itself, but it then writes a snapshot of all trials and copies it whenever a trial has saved as
    many as it is to keep, which is several times for every trial.
    """
    with suppress(OSError):  # removed at the end of the trial
        older = sorted(path for path in newest.parent.glob("checkpoint_*") if path.name < newest.name)
        for folder in older[:-1]:
            shutil.rmtree(folder, ignore_errors=True)


def remove_checkpoints(directory: RunDirectory, number: int) -> None:
    """Remove the checkpoints of a trial that has ended, and the files that they share."""
    for folder in list(_checkpoints(directory, number)):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(directory.blobs(number), ignore_errors=True)


def _checkpoints(directory: RunDirectory, number: int) -> Iterator[Path]:
    """Yield a trial's checkpoints, of its own run and of campaigns that drove the run."""
    homes: tuple[DrivenDirectory, ...] = (directory.run, *Storage(directory.run.path.parent).campaigns())
    for home in homes:
        name = home.trial_folder(directory.name, number)
        yield from home.ray.glob(f"attempt-*/{name}/checkpoint_*")
        # Tune appends `_` and four letters if the folder exists, which can happen when a start is slow.
        yield from home.ray.glob(f"attempt-*/{name}_*/checkpoint_*")
