"""What Ray Tune runs: the trials of a run, or on several benchmarks the parts of its trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tausearch.runs import MultiTrial, PartsSpec, RunSpec, Scales, TrialSummary, TrialTable, combine_parts
from tausearch.studies.parts.searchers import MultiSearcher, PartSearcher, stopped_parts
from tausearch.studies.searchers import Searcher


class TrialListener(Protocol):
    """Receives the changes of trials, in order, in the driver's thread. It must return at once.

    A `tracking.Callback` hears of events in a thread of its own.
    """

    def trial_changed(self, trial: TrialSummary) -> None:
        """Note a trial that started, finished a task, or ended. `trial` may be kept and must not be changed."""


class TuneTrials:
    """What Ray Tune runs for a run: its trials."""

    def __init__(self, spec: RunSpec, trials: TrialTable, searcher: Searcher) -> None:
        self.spec = spec
        self.trials = trials
        self.searcher = searcher

    def as_trials(self, tune_trials: list[TrialSummary]) -> list[TrialSummary]:
        """Return the trials to which Tune's trials belong."""
        return tune_trials

    def stop_overdue(self) -> list[TrialSummary]:
        """Stop trials that an earlier driver should have stopped; returns those that the record must note."""
        return []

    def listeners(self, record: TrialListener, others: Sequence[TrialListener]) -> list[TrialListener]:
        """Return the listeners of Tune's trials; `others` are those of the run's trials."""
        return [record, *others]


class PartTuneTrials(TuneTrials):
    """What Ray Tune runs for a run on several benchmarks: the parts of its trials.

    `trials` are the parts; `trial_table` is the driver's table of the trials, and `trial_searcher` proposes them.
    """

    spec: PartsSpec

    def __init__(
        self, spec: PartsSpec, parts: TrialTable, trials: TrialTable, searcher: Searcher, scales: Scales | None = None
    ) -> None:
        super().__init__(spec, parts, PartSearcher(spec, searcher, parts, trials))
        self.trial_table = trials
        self.trial_searcher = searcher
        self.scales = scales

    def as_trials(self, tune_trials: list[TrialSummary]) -> list[TrialSummary]:
        """Return the trials of parts."""
        return list(combine_parts(self.spec, tune_trials, self.scales))

    def update(self) -> None:
        """Bring the table of the trials up to date: one part can change the values of all."""
        known = {trial.number: trial for trial in self.trial_table if isinstance(trial, MultiTrial)}
        for trial in combine_parts(self.spec, self.trials, self.scales, known):
            self.trial_table.put(trial)

    def stopped_early(self, trial: TrialSummary | None) -> list[TrialSummary]:
        """Stop a trial that waits for its next benchmark if the rule says so; returns the parts that it lost."""
        if not isinstance(trial, MultiTrial) or trial.status != "running" or trial.parts[trial.tasks_done] is not None:
            return []
        if not isinstance(self.trial_searcher, MultiSearcher) or not self.trial_searcher.should_stop(trial.number):
            return []
        lost = list(stopped_parts(self.spec, trial))
        for part in lost:
            self.trials.put(part)
        self.update()
        return lost

    def stop_overdue(self) -> list[TrialSummary]:
        """Stop the trials that an earlier driver died before stopping; returns the parts that they lost."""
        return [part for trial in self.trial_table for part in self.stopped_early(trial)]

    def listeners(self, record: TrialListener, others: Sequence[TrialListener]) -> list[TrialListener]:
        """Return the listeners of changes of parts; `others` are told of the trials, one after the other."""
        return [record, _TrialNotifier(self, record, others)]


class _TrialNotifier:
    """Turns the changes of parts into those of trials, and stops trials between benchmarks."""

    def __init__(self, tune_trials: PartTuneTrials, record: TrialListener, others: Sequence[TrialListener]) -> None:
        self.tune_trials = tune_trials
        self.record = record
        self.others = others
        self._last_sent = {trial.number: _stage(trial) for trial in tune_trials.trial_table}

    def trial_changed(self, part: TrialSummary) -> None:
        """Tell the others of the part's trial if it started, finished a benchmark, or ended."""
        tune_trials, number = self.tune_trials, self.tune_trials.spec.trial_of(part.number)
        tune_trials.update()
        if part.status == "complete":
            for lost in tune_trials.stopped_early(tune_trials.trial_table.get(number)):
                self.record.trial_changed(lost)
        trial = tune_trials.trial_table.get(number)
        assert trial is not None, "the part belongs to it"
        if self._last_sent.get(number) != _stage(trial):
            self._last_sent[number] = _stage(trial)
            for each in self.others:
                each.trial_changed(trial)


def _stage(trial: TrialSummary) -> tuple[str, int]:
    return trial.status, trial.tasks_done
