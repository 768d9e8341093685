"""The Optuna study of a search: space, sampler, pruner, and the trials of the record.

The study lives in the driver's memory. After a resume it is rebuilt from the record by asking, reporting and telling
once more through Optuna's public interface, so sampler and pruner know all that they knew before. Where both note
nothing of their own in a study, trials that have ended are added as they are, which takes a tenth of the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy
import optuna
from optuna.trial import FrozenTrial, TrialState

from search_spaces import Dimension, Range
from tausearch.runs import ALGORITHMS, SCHEDULERS, SearchSpec, Status, TrialSummary, violations
from tausearch.studies.algorithms import algorithm_named, startup_trials
from tausearch.studies.named_classes import with_options
from tausearch.studies.rebuilt_sampler import RebuiltSampler
from tausearch.studies.schedulers import first_stop, pruner_named
from trainables.errors import InputError
from trainables.randomness import derive_seed
from trainables.user_code import called

_STATES = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "diverged": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
_NOTE_NOTHING = ("median", "none")  # schedulers; `asha` notes in each trial how far it came

Point = dict[str, float | int | str | bool]


class SearchStudy:
    """The Optuna study of one search, with the trials that have ended already.

    `points_to_evaluate` are those that the search tries before its algorithm proposes any. They matter to the
    rebuilding of a sampler that keeps state: it was not asked for all values of these points.
    """

    def __init__(
        self, spec: SearchSpec, history: Sequence[TrialSummary] = (), points_to_evaluate: Sequence[Point] = ()
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.spec = spec
        self._first_points = list(points_to_evaluate)  # those that no trial of the record has had yet
        self.algorithm = algorithm_named(spec.algorithm, spec.sampler_options)
        sampler = self.algorithm.sampler(spec.seed)
        self.space = {name: _distribution(dimension) for name, dimension in spec.space.items()}
        named = f"sampler {spec.algorithm!r}"  # in errors
        self._sampler_with_options = with_options(named, spec.sampler_options)
        self.rebuilt = RebuiltSampler(sampler, self.space, named) if self.algorithm.keeps_state else None
        plain_sampler = not (self.algorithm.keeps_state or self.algorithm.needs_complete_trials)
        self._notes_nothing = plain_sampler and spec.scheduler in _NOTE_NOTHING
        self.optuna = optuna.create_study(
            directions=[each.direction for each in spec.objectives] or ["maximize"],
            sampler=self.rebuilt or sampler,
            pruner=pruner_named(spec.scheduler, spec.pruner_options, first_stop(spec)),
            study_name=spec.name,
        )
        # A sampler without points left stops Optuna's own loop, which does not run here: `point_count` has the end.
        self.optuna.stop = lambda: None
        self.running: dict[int, optuna.Trial] = {}
        self._reported: set[tuple[int, int]] = set()
        self._stopped: set[int] = set()
        for trial in history:
            self.add_recorded_trial(trial)

    def ask(self, number: int) -> Point:
        """Start a trial; returns its hyperparameters: the first point in the queue, else the sampler's choice."""
        if self.rebuilt is None:
            # Draws depend on seed, number and known trials only, so a killed search goes on with the same points.
            self.optuna.sampler = self.algorithm.sampler(derive_seed(self.spec.seed, "trial", number) % 2**32)
        self.running[number] = called(self._sampler_with_options, lambda: self.optuna.ask(self.space))
        return dict(self.running[number].params)

    def ask_again(self, number: int, point: Point) -> Point:
        """Start a trial of the record with its point, as `ask` or one of the first points started it before."""
        was_first = point in self._first_points
        if was_first:
            self._first_points.remove(point)  # the sampler itself may propose it again later
        if self.rebuilt is None or was_first:
            self.enqueue(point)
            return self.ask(number)
        self.rebuilt.recorded = point
        try:
            return self.ask(number)
        finally:
            self.rebuilt.recorded = None

    @property
    def agrees(self) -> bool:
        """Whether a sampler that keeps state proposed, when it was rebuilt, what the record has."""
        return self.rebuilt is None or self.rebuilt.agrees

    def replace_point(self, number: int, hyperparameters: Point) -> None:
        """Give a trial that has not started another point; the sampler learns from this point only."""
        self.optuna.tell(self.running.pop(number), state=TrialState.FAIL)
        self.enqueue(hyperparameters)
        self.ask(number)

    def enqueue(self, hyperparameters: Point) -> None:
        """Add a point to try before those of the sampler."""
        self.optuna.enqueue_trial(hyperparameters)

    def report(self, number: int, step: int, value: float) -> bool:
        """Note an accuracy after a task; returns whether the trial should stop. A repeated report returns the same."""
        if self.spec.objectives:
            return False  # no scheduler goes with them, and Optuna takes no reports for several
        if (number, step) not in self._reported:
            self._reported.add((number, step))
            self.running[number].report(value, step)
            if self._should_prune(number):
                self._stopped.add(number)
        return number in self._stopped  # also if its process died before the stop

    def last_report(self, trial: TrialSummary) -> bool:
        """Report the tasks of a trial; returns what the last report does. It has gone on after each earlier one."""
        answers = []
        for step, value in self.reports(trial).items():
            self._stopped.discard(trial.number)
            answers.append(self.report(trial.number, step, value))
        return answers[-1]

    def _should_prune(self, number: int) -> bool:
        what = f"pruner {self.spec.scheduler!r}"
        found = called(what, self.running[number].should_prune)
        if not isinstance(found, bool | numpy.bool_):
            raise InputError(f"{what}: prune must return True or False, got {repr(found)[:100]}")
        return bool(found)

    def tell(self, number: int, status: Status, value: float | None, known: TrialSummary | None = None) -> None:
        """Note the end of a trial; constraints need the whole trial, `known`.

        A trial that did not reach the last task is pruned, whatever its last value: average accuracy falls with every
        task, so the trial would look better than a complete one. An algorithm that needs whole trials gets a diverged
        trial as complete with the worst value.
        """
        trial = self.running.pop(number)
        for name, violation in self._violations(known).items():
            trial.set_constraint(name, violation)
        values = self._values(status, value, known)
        how: dict[str, Any] = {"state": _told_state(status)} if values is None else {"values": values}
        called(self._sampler_with_options, lambda: self.optuna.tell(trial, **how))

    def _values(self, status: Status, value: float | None, known: TrialSummary | None) -> list[float] | None:
        """Return the values of a trial in all objectives; None if the study gets none."""
        if status == "complete" and not self.spec.objectives:
            assert value is not None and math.isfinite(value)
            return [value]
        if status == "complete" and known is not None:
            return values_of(self.spec, known)
        if status == "diverged" and self.algorithm.needs_complete_trials and not self.spec.objectives:
            return [self.spec.worst]
        return None

    def add_recorded_trial(self, trial: TrialSummary) -> None:
        """Add a trial of the record; an unfinished one stays running."""
        if trial.has_ended and self._notes_nothing:
            self.optuna.add_trial(self.as_optuna(trial))
            return
        self.ask_again(trial.number, self.point(trial))
        # The pruner is told of its tasks once more; this does not stop the trial.
        for step, value in self.reports(trial).items():
            self.report(trial.number, step, value)
        self._stopped.discard(trial.number)
        if trial.status != "running":
            self.tell(trial.number, trial.status, trial.value, trial)

    def as_optuna(self, trial: TrialSummary) -> FrozenTrial:
        """Return Optuna's form of a trial that ended."""
        values = values_of(self.spec, trial)
        return optuna.trial.create_trial(
            state=_told_state(trial.status) if values is None else TrialState.COMPLETE,
            values=values,
            params=self.point(trial),
            distributions=self.space,
            intermediate_values={} if self.spec.objectives else self.reports(trial),
            constraints=self._violations(trial),
        )

    def _violations(self, trial: TrialSummary | None) -> dict[str, float]:
        """Return how far a trial exceeds each constraint, for the samplers `tpe` and `gp`."""
        return {} if trial is None else dict(violations(trial, self.spec.constraints))

    def reports(self, trial: TrialSummary) -> dict[int, float]:
        """Return task to accuracy of a trial; the task at which it diverged has the worst value."""
        names = self.spec.metrics
        values = {int(row["task"]): row[names.average_accuracy] for row in trial.judged(names)}
        if trial.status == "diverged":
            values[trial.tasks_done + 1] = self.spec.worst
        return values

    def point(self, trial: TrialSummary) -> Point:
        """Return the searched hyperparameters of a trial."""
        return {name: trial.hyperparameters[name] for name in self.space}


def values_of(spec: SearchSpec, trial: TrialSummary) -> list[float] | None:
    """Return the values of a trial in the objectives of its search; None unless it is complete and has all."""
    if trial.status != "complete":
        return None
    values = [each.value(trial) for each in spec.objectives] if spec.objectives else [trial.value]
    known = [value for value in values if value is not None and math.isfinite(value)]
    return known if len(known) == len(values) else None


def _told_state(status: Status) -> TrialState:
    """Return Optuna's state of a trial without values; one that lacks a metric of an objective has failed for it."""
    return TrialState.FAIL if status == "complete" else _STATES[status]


def _distribution(dimension: Dimension) -> optuna.distributions.BaseDistribution:
    if not isinstance(dimension, Range):
        return optuna.distributions.CategoricalDistribution(dimension.choices)
    if dimension.integer:
        return optuna.distributions.IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return optuna.distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def study_of(spec: SearchSpec, trials: Sequence[TrialSummary], *, accuracy_alone: bool = False) -> optuna.Study:
    """Return Optuna's study of trials that have ended, for plots and importances; it samples and stops nothing more.

    So it needs neither sampler nor pruner of the search, which may be code of the user.
    """
    plain: dict[str, Any] = {"algorithm": "random", "sampler_options": {}, "scheduler": "none", "pruner_options": {}}
    if accuracy_alone:
        plain["objectives"] = ()
    return SearchStudy(spec.model_copy(update=plain), trials).optuna


def require_sampler(spec: SearchSpec) -> None:
    """Check sampler and pruner of a search on trials in memory, before any work: an algorithm with options learns."""
    if spec.algorithm == "grid" and spec.sampler_options:
        raise InputError("--sampler-option: a grid has no sampler")
    study = SearchStudy(spec)
    tried = study.rebuilt is not None or spec.scheduler not in SCHEDULERS
    if tried or spec.sampler_options or spec.objectives:
        enough = startup_trials(spec) if spec.sampler_options and spec.algorithm in ALGORITHMS else 0
        for number in range(max(2, enough)):
            value = 60.0 - number % 9
            study.ask(number)
            study.report(number, 1, value)
            study.tell(number, "complete", value, _tried(spec, number, value))
        if enough:
            study.ask(enough)


def _tried(spec: SearchSpec, number: int, value: float) -> TrialSummary:
    """Return a finished trial with one value in every metric that a search aims at."""
    row = {"task": 1.0, spec.metrics.average_accuracy: value, **{each.metric: value for each in spec.objectives}}
    return TrialSummary(number, spec.seed, "complete", dict(spec.start), [row], value)
