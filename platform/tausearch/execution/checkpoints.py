"""Look after the checkpoints that trials write: put damaged ones aside, remove those of ended trials."""

from __future__ import annotations

import shutil
from collections.abc import Iterable

from tausearch.runs import RunDirectory, TrialSummary
from trainables.state import damaged_files, newest_checkpoint


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
        folder = directory.checkpoints(trial.number)
        while newest := newest_checkpoint(folder, trial.tasks_done):
            damaged = damaged_files(newest, folder)
            if not damaged:
                break
            for path in damaged:
                path.rename(path.with_name(f"{path.name}.damaged"))
                lines.append(f"trial {trial.number}: {path} is damaged and was put aside; what came before it is used")
    return lines


def remove_checkpoints(directory: RunDirectory, number: int) -> None:
    """Remove the checkpoints of a trial that has ended, and the files that they share."""
    shutil.rmtree(directory.checkpoints(number), ignore_errors=True)
