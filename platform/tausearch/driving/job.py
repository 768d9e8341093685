"""A run as it is driven: what was asked for, where it lies, where its trials come from, and who is told of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from ray.tune import Trainable

from search_spaces import Scalar
from tausearch.choosing import TrialSource
from tausearch.driving.checkpoints import newest_checkpoint
from tausearch.runs import Conclusion, RunDirectory, RunSpec, Storage, TrialSummary, TrialTable, all_ended
from trainables.config import TrialConfig
from trainables.state import read_heartbeat
from trainables.trial import Trial

Conclude = Callable[[list[TrialSummary]], Conclusion]
"""Called once with all trials, also after Ctrl-C: writes what the run leaves behind."""

Identify = Callable[[list[TrialSummary], Mapping[int, str]], None]
"""Called after that with the ids that MLflow gave to the runs of trials: writes them where they belong."""


def leave_unidentified(trials: list[TrialSummary], run_ids: Mapping[int, str]) -> None:
    """Do nothing: what the run leaves behind does not say which of MLflow's runs it is. An `Identify`."""


_EPOCHS_HOLD = 1.0  # seconds for which what was read holds: a display asks four times a second, of every trial


class Listener(Protocol):
    """Is told what happens to trials, in order, in the driver's thread: it must return at once."""

    def trial_changed(self, trial: TrialSummary) -> None:
        """Take note of a trial that started, finished a task, or ended; `trial` is to keep, not to change."""
        ...


@dataclass(frozen=True)
class Job:
    """A run to be driven.

    Attributes:
        spec: What was asked for; saved already.
        storage: Its root.
        directory: Its run directory, which exists.
        trials: All trials that have started; of a new run none.
        source: Says which trial comes next.
        conclude: Writes what the run leaves behind.
        listeners: Told of every change after the record, before MLflow and the display.
        identify: Writes the ids of MLflow's runs where they belong.
        trainable: What a trial runs; another one measures the platform alone.
        is_over: Says whether nothing is left to run, given all trials that have started; by default if each has ended.
        follow: Makes the job that follows once all trials have ended, and of which the run is part; None if none does.
    """

    spec: RunSpec
    storage: Storage
    directory: RunDirectory
    trials: TrialTable
    source: TrialSource
    conclude: Conclude
    listeners: tuple[Listener, ...] = ()
    identify: Identify = leave_unidentified
    trainable: type[Trainable] = Trial
    is_over: Callable[[list[TrialSummary]], bool] | None = None
    follow: Callable[[], Job] | None = None

    def over(self, trials: list[TrialSummary]) -> bool:
        """Whether nothing is left to run, given all trials that have started."""
        return all_ended(trials, self.spec.trials) if self.is_over is None else self.is_over(trials)

    def config(self, number: int, hyperparameters: dict[str, Scalar]) -> TrialConfig:
        """Return the config of a trial; one that has started already goes on from its newest checkpoint."""
        config = self.spec.trial(number, hyperparameters, store=self.storage.store, directory=self.directory)
        checkpoint = None if self.trials.get(number) is None else newest_checkpoint(self.directory, number)
        return config if checkpoint is None else replace(config, resume_from=str(checkpoint))


class Epochs:
    """Says of a running trial how many epochs of the task that it is in are done.

    Args:
        directory: The run directory.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self._read: dict[int, tuple[float, str]] = {}

    def __call__(self, trial: TrialSummary) -> str:
        """Return it in words, such as `epoch 3/50`; empty if the trial has not said so yet."""
        when, words = self._read.get(trial.number, (0.0, ""))
        if time.monotonic() - when > _EPOCHS_HOLD:
            words = self._words(trial)
            self._read[trial.number] = time.monotonic(), words
        return words

    def _words(self, trial: TrialSummary) -> str:
        epoch = read_heartbeat(self.directory.blobs(trial.number))
        return "" if epoch is None or epoch.task <= trial.final.get("task", 0) else f"epoch {epoch.done}/{epoch.of}"
