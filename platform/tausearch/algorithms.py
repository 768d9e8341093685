"""What to try next: Optuna's samplers and the grid, behind one small contract that Tune is adapted to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import optuna
from ray.tune.search import Searcher

from search_spaces import Dimension, Range, Scalar
from tausearch.record import Status, TrialSummary
from tausearch.spec import Algorithm, RunSpec
from trainables.randomness import derive_seed

WORST = 0.0  # percent: what a diverged trial is worth at the task where it diverged
STARTUP_TRIALS = 6  # random ones before TPE models anything; Optuna's 10 would be most of a short search


class TrialSource(Protocol):
    """Says which trial comes next and is told how each one does."""

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        """Return number and hyperparameters of the next trial; None if there is none left."""
        ...

    def report(self, number: int, step: int, value: float) -> None:
        """Take note of a running trial's average accuracy after task `step`."""
        ...

    def finish(self, number: int, status: Status, value: float | None) -> None:
        """Take note of how a trial ended."""
        ...


class OptunaSource:
    """Trials chosen by an Optuna study that lives in the driver's memory and is rebuilt from the record.

    The search's starting point comes first. A grid is the list of its points, handed to the study in order, so that
    every algorithm leaves the same kind of history.

    Args:
        spec: Space, algorithm, seed, number of trials.
        history: What is known already, when a search is continued. Trials that have not ended are handed out first,
            under their own numbers.
    """

    def __init__(self, spec: RunSpec, history: Sequence[TrialSummary] = ()) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.spec = spec
        self.space = {name: _distribution(dimension) for name, dimension in spec.space.items()}
        # A sampler that starts again from the same seed would propose its first points a second time.
        seed = derive_seed(spec.seed, "continued", len(history)) % 2**32 if history else spec.seed
        self.study = optuna.create_study(
            direction="maximize", sampler=_sampler(spec.algorithm, seed), study_name=spec.name
        )
        self.running: dict[int, optuna.Trial] = {}
        self.unfinished = [trial for trial in history if trial.status == "running"]
        self.unused = iter(sorted(set(range(spec.trials)) - {trial.number for trial in history}))
        for trial in history:
            if trial.status != "running":
                self.study.add_trial(self.as_optuna(trial))
        points = grid_points(spec.space) if spec.algorithm == "grid" else [dict(spec.start)]
        tried = [self._point(trial) for trial in history]
        for trial in self.unfinished:
            self.study.enqueue_trial(self._point(trial))
        for point in points:
            if point not in tried:
                self.study.enqueue_trial(point)

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        """See `TrialSource`."""
        number = self.unfinished.pop(0).number if self.unfinished else next(self.unused, None)
        if number is None:
            return None
        trial = self.study.ask(self.space)
        self.running[number] = trial
        return number, dict(trial.params)

    def report(self, number: int, step: int, value: float) -> None:
        """See `TrialSource`."""
        self.running[number].report(value, step)

    def finish(self, number: int, status: Status, value: float | None) -> None:
        """See `TrialSource`: a trial that did not reach the last task is pruned, whatever its last value was.

        Average accuracy falls as tasks come, so a trial stopped early would otherwise look better than a whole one.
        """
        trial = self.running.pop(number)
        if status == "complete":
            assert value is not None and math.isfinite(value)
            self.study.tell(trial, value)
        else:
            self.study.tell(trial, state=_OPTUNA_STATE[status])

    def _point(self, trial: TrialSummary) -> dict[str, Scalar]:
        return {name: trial.hyperparameters[name] for name in self.space}

    def as_optuna(self, trial: TrialSummary) -> optuna.trial.FrozenTrial:
        """Return Optuna's form of a trial that ended."""
        values = {int(row["task"]): row[f"{self.spec.prefix}/average_accuracy"] for row in trial.rows}
        if trial.status == "diverged":
            values[trial.tasks_done + 1] = WORST
        return optuna.trial.create_trial(
            state=_OPTUNA_STATE[trial.status],
            value=trial.value if trial.status == "complete" else None,
            params=self._point(trial),
            distributions=self.space,
            intermediate_values=values,
        )


_OPTUNA_STATE = {
    "complete": optuna.trial.TrialState.COMPLETE,
    "pruned": optuna.trial.TrialState.PRUNED,
    "diverged": optuna.trial.TrialState.PRUNED,
    "failed": optuna.trial.TrialState.FAIL,
}


class FixedSource:
    """Trials that were decided beforehand: the seeds of a final run.

    Args:
        trials: Number and hyperparameters of each.
    """

    def __init__(self, trials: Iterable[tuple[int, Mapping[str, Scalar]]]) -> None:
        self.left = [(number, dict(hyperparameters)) for number, hyperparameters in trials]

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        """See `TrialSource`."""
        return self.left.pop(0) if self.left else None

    def report(self, number: int, step: int, value: float) -> None:
        """See `TrialSource`."""

    def finish(self, number: int, status: Status, value: float | None) -> None:
        """See `TrialSource`."""


class TuneSearcher(Searcher):
    """Lets Tune take its trials from a `TrialSource`.

    Tune's own OptunaSearch is not used because it tells Optuna that a trial stopped early is complete, and leaves one
    that reported NaN running for ever.

    Args:
        source: Where trials come from.
        make_config: Number and hyperparameters to the config that Tune passes to the worker.
        metric: Reported after every task, larger is better.
        final_metric: Reported after the last task alone.
    """

    def __init__(self, source: TrialSource, make_config: Any, metric: str, final_metric: str) -> None:
        super().__init__(metric=metric, mode="max")
        self.source = source
        self.make_config = make_config
        self.final_metric = final_metric
        self.numbers: dict[str, int] = {}

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the config of the next trial, or that there is none."""
        suggestion = self.source.next()
        if suggestion is None:
            return Searcher.FINISHED
        self.numbers[trial_id] = suggestion[0]
        return self.make_config(*suggestion)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Pass a task's result on."""
        self.source.report(self.numbers[trial_id], int(result["task"]), float(result[self.metric]))

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Pass the end of a trial on; its last result counts as a report too."""
        number = self.numbers[trial_id]
        status = status_of(result, error, self.final_metric)
        if result and "task" in result and not error:
            self.source.report(number, int(result["task"]), float(result[self.metric]))
        self.source.finish(number, status, result.get(self.final_metric) if result else None)

    def __getstate__(self) -> dict[str, Any]:
        """Leave everything out of the snapshot that Tune pickles and nobody reads."""
        return {}

    def save(self, checkpoint_path: str) -> None:
        """Save nothing: a search is continued from its record, never from Tune's snapshot."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing; see `save`."""


def status_of(result: Mapping[str, Any] | None, error: bool, final_metric: str) -> Status:
    """Say how a trial ended, from its last result and whether its process gave up."""
    if error:
        return "failed"
    if result and result.get("diverged"):
        return "diverged"
    return "complete" if result and result.get(final_metric) is not None else "pruned"


def grid_points(space: Mapping[str, Dimension]) -> list[dict[str, Scalar]]:
    """Return every point of the grid, the last hyperparameter varying fastest."""
    values = [[dimension.typed(value) for value in dimension.grid] for dimension in space.values()]
    return [dict(zip(space, point, strict=True)) for point in itertools.product(*values)]


def best_trial(trials: Iterable[TrialSummary]) -> TrialSummary | None:
    """Return the trial with the highest final accuracy; only trials that finished the last task compete.

    Ties go to the earlier trial.
    """
    finished = [trial for trial in trials if trial.status == "complete" and trial.value is not None]
    return max(finished, key=lambda trial: (trial.value, -trial.number), default=None)


def _distribution(dimension: Dimension) -> optuna.distributions.BaseDistribution:
    if not isinstance(dimension, Range):
        return optuna.distributions.CategoricalDistribution(dimension.choices)
    if dimension.integer:
        return optuna.distributions.IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return optuna.distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def _sampler(algorithm: Algorithm, seed: int) -> optuna.samplers.BaseSampler:
    if algorithm == "tpe":
        return optuna.samplers.TPESampler(
            seed=seed, multivariate=True, constant_liar=True, n_startup_trials=STARTUP_TRIALS
        )
    return optuna.samplers.RandomSampler(seed=seed)  # a grid never asks it: all its points are enqueued
