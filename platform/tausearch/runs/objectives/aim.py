"""How the trials of a search compare: by its objectives, its constraints, and the point of the front that it prefers.

The knee is the point of the front with the least sum of losses, every objective scaled to its range on the front. With
two objectives it lies farthest from the line through the front's extremes, on the better side.

Source: Das 1999, On characterizing the "knee" of the Pareto curve, Structural Optimization 18; scaled to the ranges of
the front as in Zhang, Tian and Jin 2015, A knee point-driven evolutionary algorithm, IEEE TEVC 19(6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import ge
from statistics import fmean

from tausearch.runs.constraints import Constraint
from tausearch.runs.objectives.objective import FINAL_ACCURACY, KNEE, Objective
from tausearch.runs.search_analysis import pareto_front
from tausearch.runs.trials import TrialSummary, ranked

TrialScorer = Callable[[TrialSummary], float | None]
"""Returns how good a trial is for the choice, more is better; None for a trial without a value."""


@dataclass(frozen=True)
class Aim:
    """What a search aims at; without objectives, at the final accuracy."""

    constraints: tuple[Constraint, ...] = ()  # bounds that a trial must keep to be chosen
    objectives: tuple[Objective, ...] = ()  # the metrics that it aims at
    prefer: str = KNEE  # with several objectives, the one by which a point of the front is chosen, or "knee"

    @property
    def chosen_by(self) -> Objective | None:
        """The objective by which a trial is chosen; None for the final accuracy, or the knee."""
        if len(self.objectives) == 1:
            return self.objectives[0]
        return next((each for each in self.objectives if each.metric == self.prefer), None)

    @property
    def by_knee(self) -> bool:
        """Whether the knee of the front is chosen."""
        return len(self.objectives) > 1 and self.chosen_by is None

    def front(self, trials: Sequence[TrialSummary]) -> list[TrialSummary]:
        """Return the front of the objectives; without several of them, that of final accuracy and forgetting.

        A trial that only trials outside the constraints beat belongs to it, so that every trial to choose is there.
        """
        if len(self.objectives) < 2:
            return pareto_front(trials)
        fit = [trial for trial in trials if self.admits(trial)]
        numbers = {trial.number for some in (trials, fit) for trial in undominated(self.objectives, some)}
        return [trial for trial in ranked(trials) if trial.number in numbers]

    def front_as_dicts(self, trials: Sequence[TrialSummary]) -> list[dict[str, float]]:
        """Return the plain form of the front for `--format json`: trials with their values in the objectives."""
        return [{"trial": trial.number, **self.objective_values(trial)} for trial in self.front(trials)]

    @property
    def metric(self) -> str:
        """The name of what a trial is chosen by: a metric, or "knee"."""
        return KNEE if self.by_knee else (self.chosen_by or FINAL_ACCURACY).metric

    @property
    def name(self) -> str:
        """The name of what a trial is chosen by, as users give it."""
        return KNEE if self.by_knee else (self.chosen_by or FINAL_ACCURACY).name

    def objective_values(self, trial: TrialSummary) -> dict[str, float]:
        """Return metric to value of a trial in all objectives that it has."""
        values = {each.metric: each.value(trial) for each in self.objectives}
        return {metric: value for metric, value in values.items() if value is not None}

    def means(self, trials: Sequence[TrialSummary]) -> dict[str, float]:
        """Return metric to mean over trials, of each objective that all of them have."""
        found = [self.objective_values(trial) for trial in trials]
        shared = [each.metric for each in self.objectives if found and all(each.metric in one for one in found)]
        return {metric: fmean(values[metric] for values in found) for metric in shared}

    def value_of(self, trial: TrialSummary, trials: Iterable[TrialSummary]) -> float | None:
        """Return what a trial of a search is chosen by, in the unit of the metric; the score for the knee."""
        score = self.score(trials)(trial)
        return score if score is None or self.chosen_by is None else self.chosen_by.signed(score)

    def words(self, trial: TrialSummary) -> str:
        """Return the values in the objectives in words, such as `final_accuracy 93.20 %, forgetting 2.50 points`."""
        return self.words_of(self.objective_values(trial))

    def words_of(self, values: Mapping[str, float]) -> str:
        """Return values of the objectives in words, as `words`."""
        return ", ".join(f"{each.name} {each.text(values.get(each.metric))}" for each in self.objectives)

    def __str__(self) -> str:
        """Return the objectives in words, and how one point of their front is chosen."""
        aims = ", ".join(each.aim for each in self.objectives)
        if len(self.objectives) < 2:
            return aims
        return f"{aims}; chosen {'at the knee' if self.chosen_by is None else f'by {self.chosen_by.name}'}"

    def admits(self, trial: TrialSummary) -> bool:
        """Whether a trial keeps all constraints and has a value in every objective."""
        measured = all(each.value(trial) is not None for each in self.objectives)
        return measured and all(each.kept_by(trial) for each in self.constraints)

    def score(self, trials: Iterable[TrialSummary]) -> TrialScorer:
        """Return the score by which a trial is chosen; the knee is that of the front of these trials."""
        if self.by_knee:
            return _knee_score(self.objectives, [each for each in trials if self.admits(each)])
        return (lambda trial: trial.value) if self.chosen_by is None else self.chosen_by.goodness


def eligible(trials: Iterable[TrialSummary], aim: Aim = Aim()) -> list[TrialSummary]:
    """Return the trials that finished the last task and keep all constraints, the best first.

    With several objectives the trials of the front come first. Ties go to the more accurate, then to the one that
    forgets less, then to the earlier.
    """
    fit = [trial for trial in ranked(trials) if aim.admits(trial)]
    if not aim.objectives:
        return fit
    score, first = aim.score(fit), {trial.number for trial in undominated(aim.objectives, fit)}
    return sorted(fit, key=lambda trial: (trial.number not in first, -(score(trial) or 0.0)))


def best_trial(trials: Iterable[TrialSummary], aim: Aim = Aim()) -> TrialSummary | None:
    """Return the first of `eligible`; None if no trial is eligible."""
    found = eligible(trials, aim) if aim.objectives else filter(aim.admits, ranked(trials))
    return next(iter(found), None)


def undominated(objectives: Sequence[Objective], trials: Iterable[TrialSummary]) -> list[TrialSummary]:
    """Return the finished trials that no other beats in these objectives, the most accurate first."""
    points = []
    for trial in ranked(trials):
        point = tuple(value for each in objectives if (value := each.goodness(trial)) is not None)
        if len(point) == len(objectives):
            points.append((point, trial))
    front: list[tuple[float, ...]] = []
    for point in sorted({point for point, _ in points}, reverse=True):  # what beats a point comes before it
        if not any(all(map(ge, other, point)) for other in front):
            front.append(point)
    best = set(front)
    return [trial for point, trial in points if point in best]


def _knee_score(objectives: Sequence[Objective], trials: Sequence[TrialSummary]) -> TrialScorer:
    """Return the score of the knee: 0 for the best of the front in every objective, -1 for an extreme of two.

    An objective in which the front has one value is scaled to the range of all trials.
    """
    points = undominated(objectives, trials)
    ranges = []
    for each in objectives:
        best, width = _best_and_width(each, points)
        ranges.append((best, width or _best_and_width(each, trials)[1] or 1.0))

    def score(trial: TrialSummary) -> float | None:
        lost = 0.0
        for each, (best, width) in zip(objectives, ranges, strict=True):
            value = each.goodness(trial)
            if value is None:
                return None
            lost += (best - value) / width
        return 0.0 - round(lost, 9)  # equal points of a front are equal floats

    return score


def _best_and_width(objective: Objective, trials: Iterable[TrialSummary]) -> tuple[float, float]:
    values = [value for trial in trials if (value := objective.goodness(trial)) is not None]
    return max(values, default=0.0), max(values, default=0.0) - min(values, default=0.0)
