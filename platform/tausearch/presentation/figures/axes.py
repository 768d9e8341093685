"""The axis of accuracies that every picture has: no outlier spoils it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_FENCE = 1.5  # interquartile ranges below the first quartile, beyond which Tukey calls a value an outlier
_LEAST_RANGE = 1.0  # points of accuracy: spreads below it are noise, and nothing within them is an outlier


@dataclass(frozen=True)
class AccuracyAxis:
    """An axis of accuracies, percent, that starts at the lowest value that is no outlier.

    Attributes:
        low: Lower end.
        high: Upper end.
        floor: Values below it are outliers, and off the axis.
    """

    low: float
    high: float
    floor: float

    @classmethod
    def of(cls, values: Sequence[float]) -> AccuracyAxis:
        """Return the axis of some values; of none, the whole range from 0 to 100.

        An outlier lies more than 1.5 interquartile ranges below the first quartile (Tukey 1977, Exploratory Data
        Analysis); at the upper end every value is shown.
        """
        finite = [value for value in values if math.isfinite(value)]
        if not finite:
            return cls(0.0, 100.0, 0.0)
        first, _, third = statistics.quantiles(finite, n=4, method="inclusive") if len(finite) > 1 else finite * 3
        floor = first - _FENCE * max(third - first, _LEAST_RANGE)
        shown = [value for value in finite if value >= floor]
        room = max(0.08 * (max(shown) - min(shown)), _LEAST_RANGE / 4)
        return cls(min(shown) - room, max(shown) + room, floor)

    @property
    def edge(self) -> float:
        """Where outliers are drawn."""
        return self.low + 0.02 * (self.high - self.low)

    @property
    def range(self) -> list[float]:
        """Both ends, as plotly takes them."""
        return [self.low, self.high]
