"""The Optuna study of a search: space, sampler, pruner, and the trials of the record.

The study lives in the driver's memory. After a resume it is rebuilt from the record by asking, reporting and telling
once more through Optuna's public interface, so sampler and pruner know all that they knew before.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import assert_never

import optuna
from optuna.trial import FrozenTrial, TrialState

from search_spaces import Dimension, Range
from tausearch.runs import Scheduler, SearchSpec, Status, TrialSummary, excesses
from tausearch.studies.algorithms import SEARCH_ALGORITHMS
from trainables.randomness import derive_seed

WORST = 0.0  # percent: the value of a diverged trial
FIRST_STOP = 3  # first task after which a trial may be stopped: earlier accuracies say little about the last one
HALVING = 2  # asha continues the better half at tasks 3, 6, 12, ...
MEDIAN_OF = 4  # other values that the median rule needs

_STATES = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "diverged": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}


class MedianPruner(optuna.pruners.BasePruner):
    """Stops a trial whose accuracy after a task is below the median of all others' after the same task.

    Optuna's own median rule compares a trial's best value so far. Average accuracy falls as tasks come, so that is the
    value after the first task, which says nothing, and nothing is ever stopped.
    """

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Return whether the trial should stop; called by Optuna, see `BasePruner`."""
        step = trial.last_step
        if step is None or step < FIRST_STOP:
            return False
        others = [
            other.intermediate_values[step]
            for other in study.get_trials(deepcopy=False)
            if other.number != trial.number and step in other.intermediate_values
        ]
        return len(others) >= MEDIAN_OF and trial.intermediate_values[step] < statistics.median(others)


class SearchStudy:
    """The Optuna study of one search, with the trials that have ended already."""

    def __init__(self, spec: SearchSpec, history: Sequence[TrialSummary] = ()) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.spec = spec
        self.algorithm = SEARCH_ALGORITHMS[spec.algorithm]
        self.space = {name: _distribution(dimension) for name, dimension in spec.space.items()}
        self.optuna = optuna.create_study(
            direction="maximize",
            sampler=self.algorithm.sampler(spec.seed),
            pruner=_pruner(spec.scheduler),
            study_name=spec.name,
        )
        self.running: dict[int, optuna.Trial] = {}
        self._reported: set[tuple[int, int]] = set()
        self._stopped: set[int] = set()
        for trial in history:
            self.replay(trial)

    def ask(self, number: int) -> dict[str, float | int | str | bool]:
        """Start a trial; returns its hyperparameters: the first point in the queue, else the sampler's choice."""
        # Draws depend on seed, number and known trials only, so a killed search that continues tries the same points.
        self.optuna.sampler = self.algorithm.sampler(derive_seed(self.spec.seed, "trial", number) % 2**32)
        self.running[number] = self.optuna.ask(self.space)
        return dict(self.running[number].params)

    def exchange(self, number: int, hyperparameters: dict[str, float | int | str | bool]) -> None:
        """Give a trial that has not started another point; the sampler learns from this point only."""
        self.optuna.tell(self.running.pop(number), state=TrialState.FAIL)
        self.enqueue(hyperparameters)
        self.ask(number)

    def enqueue(self, hyperparameters: dict[str, float | int | str | bool]) -> None:
        """Add a point to try before those of the sampler."""
        self.optuna.enqueue_trial(hyperparameters)

    def report(self, number: int, step: int, value: float) -> bool:
        """Note an accuracy after a task; returns whether the trial should stop. A repeated report returns the same."""
        if (number, step) not in self._reported:
            self._reported.add((number, step))
            self.running[number].report(value, step)
            if self.running[number].should_prune():
                self._stopped.add(number)
        return number in self._stopped  # also if its process died before the stop

    def tell(self, number: int, status: Status, value: float | None, known: TrialSummary | None = None) -> None:
        """Note the end of a trial; constraints need the whole trial, `known`.

        A trial that did not reach the last task is pruned, whatever its last value: average accuracy falls with every
        task, so the trial would look better than a complete one. An algorithm that needs whole trials gets a diverged
        trial as complete with the worst value.
        """
        trial = self.running.pop(number)
        for name, excess in self._excesses(known).items():
            trial.set_constraint(name, excess)
        if status == "complete":
            assert value is not None and math.isfinite(value)
            self.optuna.tell(trial, value)
        elif status == "diverged" and self.algorithm.needs_whole_trials:
            self.optuna.tell(trial, WORST)
        else:
            self.optuna.tell(trial, state=_STATES[status])

    def replay(self, trial: TrialSummary) -> None:
        """Add a trial of the record; an unfinished one stays running."""
        self.enqueue(self.point(trial))
        self.ask(trial.number)
        self.replay_rows(trial)
        if trial.status != "running":
            self.tell(trial.number, trial.status, trial.value, trial)

    def replay_rows(self, trial: TrialSummary) -> None:
        """Report the tasks of a recorded trial again, without stopping the trial."""
        for step, value in self.reports(trial).items():
            self.report(trial.number, step, value)
        self._stopped.discard(trial.number)

    def as_optuna(self, trial: TrialSummary) -> FrozenTrial:
        """Return Optuna's form of a trial that ended."""
        return optuna.trial.create_trial(
            state=_STATES[trial.status],
            value=trial.value if trial.status == "complete" else None,
            params=self.point(trial),
            distributions=self.space,
            intermediate_values=self.reports(trial),
            constraints=self._excesses(trial),
        )

    def _excesses(self, trial: TrialSummary | None) -> dict[str, float]:
        """Return how far a trial exceeds each constraint, for the samplers `tpe` and `gp`."""
        return {} if trial is None else dict(excesses(trial, self.spec.constraints))

    def reports(self, trial: TrialSummary) -> dict[int, float]:
        """Return task to accuracy of a trial; the task at which it diverged has the worst value."""
        values = {int(row["task"]): row[self.spec.metrics.average_accuracy] for row in trial.rows}
        if trial.status == "diverged":
            values[trial.tasks_done + 1] = WORST
        return values

    def point(self, trial: TrialSummary) -> dict[str, float | int | str | bool]:
        """Return the searched hyperparameters of a trial."""
        return {name: trial.hyperparameters[name] for name in self.space}


def _distribution(dimension: Dimension) -> optuna.distributions.BaseDistribution:
    if not isinstance(dimension, Range):
        return optuna.distributions.CategoricalDistribution(dimension.choices)
    if dimension.integer:
        return optuna.distributions.IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return optuna.distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def _pruner(scheduler: Scheduler) -> optuna.pruners.BasePruner:
    match scheduler:
        case "asha":
            return optuna.pruners.SuccessiveHalvingPruner(min_resource=FIRST_STOP, reduction_factor=HALVING)
        case "median":
            return MedianPruner()
        case "none":
            return optuna.pruners.NopPruner()
    assert_never(scheduler)
