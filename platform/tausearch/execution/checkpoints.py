"""Look after the checkpoints that trials write: put damaged ones aside, remove those of ended trials."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from checked_input.names import counted
from tausearch.runs import RunDirectory, RunSpec, TrialSummary
from trainables.state import checkpoint_after, damaged_files, newest_checkpoint, whole_checkpoints


def prepare_checkpoints(directory: RunDirectory, spec: RunSpec, trials: Iterable[TrialSummary]) -> list[str]:
    """Remove the checkpoints of ended trials that a killed driver left, and rename damaged files of the others.

    A checkpoint with a renamed file is passed over: the trial continues from the one before it, or begins anew.

    Returns:
        A line for every file that was renamed, and for every trial that lost its tasks.
    """
    lines = []
    for trial in trials:
        if trial.status != "running":
            remove_checkpoints(directory, trial.number)
            continue
        folder, who = directory.checkpoints(trial.number), f"{spec.run_name}, {spec.label(trial.number)}"
        for path in _damaged_files(folder, trial.tasks_done):
            path.rename(path.with_name(f"{path.name}.damaged"))
            lines.append(f"{who}: {path} is damaged and was put aside; what came before it is used")
        if trial.tasks_done and newest_checkpoint(folder, trial.tasks_done) is None:
            done = counted(trial.tasks_done, "task")
            lines.append(f"{who}: no checkpoint of its {done}; it begins anew")
    return lines


def _damaged_files(folder: Path, tasks: int) -> Iterator[Path]:
    """Yield the damaged files of a trial's newest checkpoints, down to one that is whole and not ahead of the record.

    The one ahead has constants that are not written again when its task is repeated. The caller renames each file.
    """
    for checkpoint in whole_checkpoints(folder, tasks + 1):
        damaged = damaged_files(checkpoint, folder)
        yield from damaged
        if not damaged and checkpoint != checkpoint_after(tasks + 1, folder):
            return


def remove_checkpoints(directory: RunDirectory, number: int) -> None:
    """Remove the checkpoints of a trial that has ended, and the files that they share."""
    shutil.rmtree(directory.checkpoints(number), ignore_errors=True)
