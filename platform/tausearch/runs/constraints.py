"""Bounds on metrics that a trial must keep to be chosen (`--constraint`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf, isfinite, isnan, nan
from statistics import fmean
from typing import Any, Literal, NamedTuple

from pydantic import FiniteFloat, model_serializer, model_validator

from checked_input.names import choices
from checked_input.schema import Strict
from checked_input.text_files import shown
from tausearch.runs.trials import TrialSummary, ranked
from trainables.errors import InputError
from trainables.metrics import PEAK_GPU_BYTES, VALIDATION

SECONDS = "seconds"  # the time of a trial without pre-consolidation, summed over the tasks
REMOVABILITY = "removability"
_LONGEST = 200  # characters
_FORM = re.compile(r"\s*([\w/.+-]+)\s*(<=|>=)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*", re.ASCII)

Direction = Literal["maximize", "minimize"]


class MetricKind(NamedTuple):
    """The range of a metric in its unit, "" for none, and its better direction, None for neither or unknown."""

    low: float
    high: float
    unit: str
    direction: Direction | None


_KINDS = {  # the first whose key is a part of the metric's name
    "accuracy": MetricKind(0.0, 100.0, "%", "maximize"),
    f"{REMOVABILITY}/target": MetricKind(-100.0, 100.0, "points", "maximize"),
    f"{REMOVABILITY}/rest": MetricKind(-100.0, 100.0, "points", "minimize"),
    REMOVABILITY: MetricKind(-200.0, 200.0, "points", "maximize"),  # the difference of two falls, each at most 100
    "forgetting": MetricKind(-100.0, 100.0, "points", "minimize"),
    SECONDS: MetricKind(0.0, inf, "s", "minimize"),
    PEAK_GPU_BYTES: MetricKind(-inf, inf, "bytes", "minimize"),
    "loss": MetricKind(-inf, inf, "", "minimize"),
    "": MetricKind(-inf, inf, "", None),
}


def metric_kind(metric: str) -> MetricKind:
    """Return what is known of a metric by its name."""
    return next(kind for part, kind in _KINDS.items() if part in metric)


def short_name(metric: str) -> str:
    """Return the name of a metric without `val/`, as users give it."""
    return metric.removeprefix(f"{VALIDATION.prefix}/")


class Constraint(Strict):
    """A bound on a metric, written `val/forgetting <= 5`."""

    metric: str  # a name in the rows of a trial, or "seconds" for the time of the whole trial
    relation: Literal["<=", ">="]
    bound: FiniteFloat  # in the metric's unit

    @classmethod
    def parse(cls, text: str, metrics: Collection[str]) -> Constraint:
        """Return what a text such as `forgetting <= 5` says, with the full name of the metric; refuse a wrong one."""
        found = _FORM.fullmatch(str(text)[:_LONGEST])
        if found is None or len(str(text)) > _LONGEST:
            form = "METRIC <= NUMBER or METRIC >= NUMBER, such as 'forgetting <= 5'"
            raise InputError(f"--constraint must be {form}, got {shown(str(text))}")
        names = {short_name(name): name for name in [*metrics, SECONDS]}
        metric = names.get(short_name(found[1]))
        if metric is None:
            raise InputError(f"--constraint {text}: unknown metric {found[1]!r}; {choices(found[1], names)}")
        bound = float(found[3])
        if abs(bound) == inf:
            raise InputError(f"--constraint {text}: the number is too large")
        low, high, *_ = metric_kind(metric)
        if (found[2] == "<=" and bound < low) or (found[2] == ">=" and bound > high):
            raise InputError(f"--constraint {text}: no trial can keep it; {metric} goes from {low:g} to {high:g}")
        return cls.model_validate({"metric": metric, "relation": found[2], "bound": bound})

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        """Read the text in a file; `parse` has checked the metric before."""
        if not isinstance(value, str):
            return value
        found = _FORM.fullmatch(value)
        if found is None:
            raise ValueError("must be METRIC <= NUMBER or METRIC >= NUMBER")
        return {"metric": found[1], "relation": found[2], "bound": float(found[3])}

    @model_serializer
    def __str__(self) -> str:
        """Return `val/forgetting <= 5`."""
        return f"{self.metric} {self.relation} {self.bound:.12g}"

    def excludes(self, other: Constraint) -> bool:
        """Whether no value of the metric keeps both bounds."""
        low, high = sorted((self, other), key=lambda each: each.relation == "<=")
        return self.metric == other.metric and self.relation != other.relation and low.bound > high.bound

    def worst(self, trial: TrialSummary) -> float | None:
        """Return the worst value of the metric over the tasks, NaN if one is; None without one."""
        if self.metric == SECONDS:
            return trial.own_seconds
        values = [row[self.metric] for row in trial.measured_rows if self.metric in row]
        if not values:
            return None
        if any(map(isnan, values)):
            return nan
        return max(values) if self.relation == "<=" else min(values)

    def violation(self, trial: TrialSummary) -> float | None:
        """Return how far a trial exceeds the bound, infinitely with a NaN, 0 or less if it keeps the bound.

        None if the metric is missing.
        """
        worst = self.worst(trial)
        return None if worst is None else self._violation(worst)

    def _violation(self, value: float) -> float:
        if isnan(value):
            return inf
        return value - self.bound if self.relation == "<=" else self.bound - value

    def kept_by(self, trial: TrialSummary) -> bool:
        """Whether a trial has the metric and keeps the bound."""
        violation = self.violation(trial)
        return violation is not None and violation <= 0

    def mean(self, trials: Sequence[TrialSummary]) -> float | None:
        """Return the mean over trials of the worst value; None without trials, or if one has no finite value."""
        found = [self.worst(trial) for trial in trials]
        known = [value for value in found if value is not None and isfinite(value)]
        return fmean(known) if found and len(known) == len(found) else None

    def allows(self, value: float) -> bool:
        """Whether a value keeps the bound."""
        return self._violation(value) <= 0


def violations(trial: TrialSummary, constraints: Iterable[Constraint]) -> Mapping[str, float]:
    """Return how far a trial exceeds each constraint, as Optuna wants it.

    A trial that ended early may lack a metric of the last task, which says nothing: 0. A complete one breaks the bound.
    """
    missing = inf if trial.status == "complete" else 0.0
    found = {str(each): each.violation(trial) for each in constraints}
    return {bound: missing if violation is None else violation for bound, violation in found.items()}


def no_feasible_trial_reason(trials: Iterable[TrialSummary], constraints: Sequence[Constraint], value_unit: str) -> str:
    """Return why a search has chosen no trial: none has finished, or each breaks a constraint or lacks an objective.

    The line names the nearest trial: it breaks the fewest constraints, and exceeds them least as a share of the bounds.
    `value_unit` is that of the values of trials.
    """
    finished = ranked(trials)
    if not finished:
        return "has no finished trial yet"
    if any(all(each.kept_by(trial) for each in constraints) for trial in finished):
        return f"no finished trial {'that keeps the constraints ' * bool(constraints)}has a value in every objective"

    def distance(trial: TrialSummary) -> tuple[int, float]:
        violated = [each for each in constraints if not each.kept_by(trial)]
        return len(violated), sum((each.violation(trial) or 0.0) / max(1.0, abs(each.bound)) for each in violated)

    nearest = min(finished, key=distance)
    got = ", ".join(f"{each.metric} {_value(each.worst(nearest))}" for each in constraints if not each.kept_by(nearest))
    asked = ", ".join(map(str, constraints))
    several = f"none of {len(finished)} finished trials keeps"
    return (
        f"{'the only finished trial does not keep' if len(finished) == 1 else several} {asked};"
        f" the nearest is trial {nearest.number} ({nearest.value:.2f} {value_unit}) with {got}"
    )


def _value(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4g}"
