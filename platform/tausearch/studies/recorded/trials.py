"""The recorded trials of a search, which a replay looks up instead of training."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from search_spaces import Dimension, Range, Scalar
from search_spaces.values import is_number
from tausearch.runs import Aim, TrialSummary, eligible

REPLAYABLE = ("complete", "pruned", "diverged")  # the end of other trials is unknown


class RecordedTrials:
    """The trials of a search that can be replayed, found by their points in the search space.

    The number of the others is `left_out`: they failed, or have not ended. They compare by the objectives of `aim`.
    """

    def __init__(self, trials: Sequence[TrialSummary], space: Mapping[str, Dimension], aim: Aim | None = None) -> None:
        self.trials = [trial for trial in trials if trial.status in REPLAYABLE]
        self.aim = Aim() if aim is None else aim
        if not eligible(self.trials, self.aim):  # none keeps the bounds
            self.aim = replace(self.aim, constraints=())
        self.left_out = len(trials) - len(self.trials)
        self.space = space

    @property
    def best(self) -> TrialSummary:
        """The complete trial that a search would choose, within its bounds if one is; there must be one."""
        return eligible(self.trials, self.aim)[0]

    def value(self, trial: TrialSummary) -> float | None:
        """Return what a trial is chosen by: its final accuracy, percent, or by objectives their metric or score."""
        return self.aim.value_of(trial, self.trials)

    def regret(self, value: float) -> float:
        """Return how much better the best trial is than a value."""
        best, by = self.value(self.best) or 0.0, self.aim.chosen_by
        return best - value if by is None else by.signed(best) - by.signed(value)

    def point(self, trial: TrialSummary) -> dict[str, Scalar]:
        """Return the searched hyperparameters of a trial."""
        return {name: trial.hyperparameters[name] for name in self.space}

    def nearest(self, point: Mapping[str, Scalar], used: Collection[int]) -> tuple[TrialSummary, float]:
        """Return the nearest trial outside `used`, and its distance. The earliest of equally near trials wins."""
        free = [trial for trial in self.trials if trial.number not in used]
        distances = [distance(self.space, point, self.point(trial)) for trial in free]
        least = min(range(len(free)), key=distances.__getitem__)
        return free[least], distances[least]


def distance(space: Mapping[str, Dimension], one: Mapping[str, Scalar], other: Mapping[str, Scalar]) -> float:
    """Return the distance of two points as a share of the ranges, 0 to 1: root mean square over the hyperparameters.

    It uses the scale of each range. Two different choices are as far apart as the ends of a range.
    """
    squares = [_share(dimension, one[name], other[name]) ** 2 for name, dimension in space.items()]
    return math.sqrt(sum(squares) / len(squares))


def _share(dimension: Dimension, one: Scalar, other: Scalar) -> float:
    if not isinstance(dimension, Range):
        return float(one != other)
    assert is_number(one) and is_number(other)
    scale = math.log if dimension.log else float
    return (scale(one) - scale(other)) / (scale(dimension.high) - scale(dimension.low))
