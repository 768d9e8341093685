"""A run while it is driven: its searcher, its trials, their listeners, and the results of the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from search_spaces import Scalar
from tausearch.runs import (
    Conclusion,
    RunDirectory,
    RunSpec,
    Status,
    Storage,
    TrialSummary,
    TrialTable,
    all_ended,
)
from tausearch.studies import Searcher, TrialListener, TuneTrials
from tausearch.tracking import Event, RunInfo
from trainables.config import TrialConfig
from trainables.state import read_heartbeat

_EPOCHS_HOLD = 1.0  # seconds between reads of a file: the display asks four times a second for each trial


class Run:
    """A run while it is driven: a search, the re-evaluation of its best trials, or a final run.

    Subclasses say when the run is over, which run follows it, and which results it writes.

    Attributes:
        tune_trials: What Tune runs: its trials, or on several benchmarks the parts of its trials.
        trials: All trials that have started; none in a new run.
        own_listeners: Told of every change after the record and the callbacks, before the display.
        announce: Tells callbacks and trackers an event. Set when the run is opened.
        listeners: All listeners, in the order in which they are told; the record comes first. Set when the run is
            opened.
        active: Numbers of the trials, or parts of them, that Tune runs now.
        exhausted: Whether the searcher has no more trials, and will have none.
        time_said: Whether the command has said how long it takes, by a better estimate than that of earlier runs.
    """

    def __init__(
        self,
        spec: RunSpec,
        storage: Storage,
        directory: RunDirectory,
        searcher: Searcher,
        trials: TrialTable,
        *,
        own_listeners: Sequence[TrialListener] = (),
        tune_trials: TuneTrials | None = None,
    ) -> None:
        self.tune_trials = tune_trials or TuneTrials(spec, trials, searcher)
        self.spec = spec
        self.storage = storage
        self.directory = directory
        self.trials = trials
        self.own_listeners = own_listeners
        self.announce: Callable[[Event], None] = lambda event: None
        self.listeners: Sequence[TrialListener] = ()
        self.active: set[int] = set()
        self.exhausted = False
        self.time_said = False

    def is_over(self, trials: list[TrialSummary]) -> bool:
        """Whether nothing is left to run, given all trials that have started."""
        return all_ended(self.spec, trials)

    def follow_up(self) -> Run | None:
        """Return the run that belongs to this one and follows it; called when all trials have ended."""
        return None

    def next_run(self, locks: ExitStack, say: Callable[[str], None]) -> Run | None:
        """Open the next run of its own that follows this one, its lock in the stack; it may say lines to a person."""
        return None

    def preload_imports(self) -> None:
        """Import what `conclude` needs, in the thread that will call it."""

    def conclude(self, trials: list[TrialSummary]) -> Conclusion:
        """Write the results, also after Ctrl-C; returns them with metrics for callbacks and trackers."""
        return Conclusion()

    @property
    def searcher(self) -> Searcher:
        """The source of its Tune trials."""
        return self.tune_trials.searcher

    @property
    def info(self) -> RunInfo:
        """The run as events name it."""
        return RunInfo(self.spec, self.directory.path, self.storage)

    @property
    def has_ended(self) -> bool:
        """Whether all trials have ended and no more will come."""
        return self.exhausted and not self.active

    def next_trial(self) -> tuple[int, dict[str, Scalar]] | None:
        """Return number and hyperparameters of the next Tune trial; None if there is none now."""
        if self.exhausted:
            return None
        if (found := self.searcher.next()) is None:
            self.exhausted = not self.active  # an active trial that ends may lead to another
        else:
            self.active.add(found[0])
        return found

    def finish(self, number: int, status: Status, value: float | None) -> None:
        """Tell the searcher the status and value of a Tune trial that has ended."""
        self.active.discard(number)
        self.searcher.finish(number, status, value)

    def summary(self, number: int, seed: int, hyperparameters: dict[str, Scalar]) -> TrialSummary:
        """Return the summary of a Tune trial; one that just started is "running"."""
        return self.tune_trials.trials.get(number) or TrialSummary(number, seed, "running", dict(hyperparameters))

    def config(self, number: int, hyperparameters: dict[str, Scalar]) -> TrialConfig:
        """Return the config of a Tune trial; one that was started before continues after the tasks of the record."""
        config = self.tune_trials.spec.trial_config(
            number, hyperparameters, cache=self.storage.cache, directory=self.directory
        )
        started = self.tune_trials.trials.get(number)
        return config if started is None else replace(config, tasks_done=started.tasks_done)


class Epochs:
    """Returns the progress of a running trial in the epochs of its current task."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self._read: dict[int, tuple[float, str]] = {}

    def __call__(self, trial: TrialSummary) -> str:
        """Return the progress as text, such as `epoch 3/50`; empty if it is unknown."""
        when, words = self._read.get(trial.number, (0.0, ""))
        if time.monotonic() - when > _EPOCHS_HOLD:
            epoch = read_heartbeat(self.directory.checkpoints(trial.number))
            begun = epoch is not None and epoch.task > trial.final.get("task", 0)
            words = f"epoch {epoch.done}/{epoch.of}" if epoch is not None and begun else ""
            self._read[trial.number] = time.monotonic(), words
        return words
