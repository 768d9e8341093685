"""TensorBoard's event files of a run: a folder per trial, in the folder `tensorboard` of the run directory.

Each driver makes the files anew, so a run that is continued has every trial and task once.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tausearch.runs import RunDirectory, TrialSummary
from tausearch.tracking.events import Event, RunBegan, RunEnded, RunInfo, TaskDone, TrialBegan, TrialEnded

if TYPE_CHECKING:  # an extra; takes half a second to import
    from torch.utils.tensorboard import SummaryWriter


class TensorBoardCallback:
    """Writes a run to TensorBoard's event files: metrics of each task, and hyperparameters with the final accuracy."""

    def __init__(self) -> None:
        self._writers: dict[Path, SummaryWriter] = {}

    def on_event(self, event: Event) -> None:
        """Write an event. What is written can be read at once, and is there after a kill."""
        if isinstance(event, RunBegan):
            shutil.rmtree(_root(event.run), ignore_errors=True)
        elif isinstance(event, TrialBegan):
            self._writer(event.run, event.trial).flush()
        elif isinstance(event, TaskDone):
            self._write_task(self._writer(event.run, event.trial), event.row)
        elif isinstance(event, TrialEnded):
            self._end_trial(event.run, event.trial)
        elif isinstance(event, RunEnded):
            self._end_run(event)

    def _write_task(self, writer: SummaryWriter, row: dict[str, float]) -> None:
        for name, value in row.items():
            if name != "task":
                writer.add_scalar(name, value, int(row["task"]))
        writer.flush()

    def _end_trial(self, run: RunInfo, trial: TrialSummary) -> None:
        """Write hyperparameters, seed and value, which TensorBoard's page HPARAMS shows, and close the files."""
        folder = _folder(run, trial)
        writer = self._writer(run, trial)
        if trial.value is not None:
            settings = {**trial.hyperparameters, "seed": trial.seed}
            name = run.spec.metrics.final_accuracy  # a score over benchmarks would move with later trials
            metrics = {f"hparam/{name}": trial.final.get(name, trial.value)}
            writer.add_hparams(settings, metrics, run_name=".", global_step=trial.tasks_done)
        else:
            writer.add_text("status", f"{trial.status}: {trial.error}" if trial.error else trial.status)
        writer.close()
        del self._writers[folder]

    def _end_run(self, event: RunEnded) -> None:
        root = _root(event.run)
        for folder in [each for each in self._writers if each.parent == root]:
            self._writers.pop(folder).close()  # of trials that go on in a later driver
        if event.metrics:
            writer = _open(root / "run")
            for name, value in event.metrics.items():
                writer.add_scalar(name, value, 0)
            writer.close()

    def _writer(self, run: RunInfo, trial: TrialSummary) -> SummaryWriter:
        folder = _folder(run, trial)
        if folder not in self._writers:
            self._writers[folder] = _open(folder)
        return self._writers[folder]


def _root(run: RunInfo) -> Path:
    return RunDirectory(run.path).tensorboard


def _folder(run: RunInfo, trial: TrialSummary) -> Path:
    return _root(run) / run.spec.file_name(trial.number)


def _open(folder: Path) -> SummaryWriter:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))
