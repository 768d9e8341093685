"""Scores: accuracies on benchmarks of different difficulty, on one scale, so that their mean can choose.

A score depends on the other trials of the search, so it changes as the search goes on. It is always computed from the
record and never stored with a trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, get_args

Across = Literal["normalised", "rank", "mean"]
ACROSS: tuple[Across, ...] = get_args(Across)
LEAST_GAIN = 1.0  # points between start and best that count at least: smaller ones are noise of the validation images
LOWEST = -100.0  # normalised: as far below the start as the best is above it; keeps one benchmark from deciding alone
LABELS: dict[Across, str] = {"normalised": "normalised", "rank": "rank %", "mean": "mean accuracy"}


@dataclass(frozen=True)
class Scale:
    """The scale of scores on one benchmark.

    `normalised`: 100 (a - start) / max(best - start, 1 point), at least -100. The start has 0, and the best 100 where
    it is a point or more above the start. `rank`: 100 (N + 1/2 - r) / N for rank r among the N accuracies, of equal
    ones their mean rank. `mean`: the accuracy itself.
    """

    across: Across
    start: float  # accuracy of the search's start; of the worst trial where the start has none; percent
    known: tuple[float, ...]  # the accuracies of all trials that have finished this benchmark, percent; one at least

    @classmethod
    def of(cls, across: Across, start: float | None, known: Iterable[float]) -> Scale | None:
        """Return the scale of the accuracies that are known; None before the first."""
        found = tuple(known)
        return cls(across, min(found) if start is None else start, found) if found else None

    def score(self, accuracy: float) -> float:
        """Return the score of an accuracy; higher is better."""
        if self.across == "mean":
            return accuracy
        if self.across == "rank":
            below = sum(each < accuracy for each in self.known)
            equal = sum(each == accuracy for each in self.known)
            return 100.0 * (below + equal / 2) / len(self.known)
        gain = max(max(self.known) - self.start, LEAST_GAIN)
        return max(LOWEST, 100.0 * (accuracy - self.start) / gain)


Scales = Sequence[Scale | None]  # one for each benchmark, in order


def score_of(scales: Scales, accuracies: Sequence[float | None], without: int | None = None) -> float:
    """Return the mean score over the benchmarks with an accuracy, 0 without one; `without` leaves one of them out.

    Rounded to a billionth, so that ties are ties.
    """
    found = [
        scale.score(accuracy)
        for place, (scale, accuracy) in enumerate(zip(scales, accuracies, strict=True))
        if scale is not None and accuracy is not None and place != without
    ]
    return round(fmean(found), 9) if found else 0.0
