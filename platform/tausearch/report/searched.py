"""A search as its plots need it: Optuna's study rebuilt from the record, and what a trial says where the pointer is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

from search_spaces import Choices, Dimension, Scalar
from tausearch.presentation import clock, number
from tausearch.runs import (
    Constraint,
    Importance,
    RunStatus,
    SearchSpec,
    TrialSummary,
    best_trial,
    importances,
    pareto_front,
)
from tausearch.studies import SearchStudy

if TYPE_CHECKING:
    import optuna

ENDED = ("complete", "pruned", "diverged", "failed")
_LONGEST = 200  # letters of an error that are shown


@dataclass(frozen=True)
class Searched:
    """A search whose names and texts are safe in plotly, which reads markup in every text that it draws.

    Attributes:
        spec: The specification; it samples nothing, stops nothing and is bound by nothing any more.
        trials: Trials that have ended, ordered by number.
        correlations: Task k to the rank correlation, from `runs.rank_correlations`.
        constraints: What the search's choice must keep.
    """

    spec: SearchSpec
    trials: list[TrialSummary]
    correlations: Mapping[int, float]
    constraints: tuple[Constraint, ...] = ()

    @classmethod
    def of(cls, status: RunStatus) -> Searched:
        """Return a search as it stands, with every text escaped."""
        assert isinstance(status.spec, SearchSpec)
        space = {escape(name): _escaped_dimension(dimension) for name, dimension in status.spec.space.items()}
        plain = {"space": space, "algorithm": "random", "scheduler": "none", "constraints": ()}
        trials = [_escaped_trial(trial) for trial in status.trials if trial.status in ENDED]
        return cls(status.spec.model_copy(update=plain), trials, status.rank_correlations, status.spec.constraints)

    @cached_property
    def study(self) -> optuna.Study:
        """Optuna's study; its n-th trial is the n-th of `trials`."""
        return SearchStudy(self.spec, self.trials).optuna

    @cached_property
    def finished(self) -> list[TrialSummary]:
        """Trials that finished the last task: those that Optuna calls complete, in its order."""
        return [trial for trial in self.trials if trial.status == "complete" and trial.value is not None]

    @cached_property
    def best(self) -> TrialSummary | None:
        """The trial that the search chooses."""
        return best_trial(self.trials, self.constraints)

    @cached_property
    def front(self) -> list[TrialSummary]:
        """See `runs.pareto_front`."""
        return pareto_front(self.trials, self.spec.metrics)

    @cached_property
    def importances(self) -> dict[str, Importance]:
        """Hyperparameter to its importance, the largest first."""
        return importances(self.study)

    def hover(self, trial: TrialSummary) -> str:
        """Return the trial and its searched hyperparameters, as plotly shows them."""
        reached = f"{trial.value:.2f} %" if trial.value is not None else f"{trial.status} at task {trial.tasks_done}"
        head = f"<b>trial {trial.number}</b>: {reached}, {clock(trial.seconds)}"
        values = [f"{name} = {number(trial.hyperparameters.get(name))}" for name in self.spec.space]
        return "<br>".join([head, *values, *([trial.error[:_LONGEST]] if trial.error else [])])


def _escaped_dimension(dimension: Dimension) -> Dimension:
    if not isinstance(dimension, Choices):
        return dimension
    return dimension.model_copy(update={"choices": tuple(map(_escaped, dimension.choices))})


def _escaped_trial(trial: TrialSummary) -> TrialSummary:
    hyperparameters = {escape(name): _escaped(value) for name, value in trial.hyperparameters.items()}
    return replace(trial, hyperparameters=hyperparameters, error=escape(trial.error) if trial.error else None)


def _escaped(value: Scalar) -> Scalar:
    return escape(value) if isinstance(value, str) else value
