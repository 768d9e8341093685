"""A plot as data: axes, points and a caption. Figures (matplotlib) and the page (plotly) draw the same plot."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ACCENT, BEST, FAINT = "#3f83c8", "#d9730d", "#8b929c"  # each can be told from a white page and from a dark one
SCALE = ("#6c7fd8", "#3fa796", "#e0a526")  # so can all colours of this scale, from low to high
# Lines of many methods: as far apart as colours can be that both pages allow; then the marks change.
LINES = ("#3f83c8", "#d9730d", "#2f9e62", "#c2509c", "#8b6fd6", "#b08a1e", "#2aa5b0", "#d1495b")
TICKS = 10  # the most whole numbers beside an axis

Mark = Literal["circle", "ring", "triangle", "cross"]

_FENCE = 1.5  # interquartile ranges below the first quartile, beyond which Tukey calls a value an outlier
_LEAST_RANGE = 1.0  # points of accuracy: spreads below it are noise, and nothing within them is an outlier


@dataclass(frozen=True)
class Axis:
    """An axis."""

    label: str  # the text beside the axis
    ends: tuple[float, float] | None = None  # the lower and the upper end; None to fit the points
    log: bool = False  # whether the axis is logarithmic
    integer_ticks: bool = False  # whether only whole numbers have a tick
    words: tuple[str, ...] = ()  # the categories of an axis without numbers, in order
    zero: bool = False  # whether a line marks 0


@dataclass(frozen=True)
class Series:
    """Points that are drawn alike; `x` and `y` hold a number or one of the axis's words for each.

    "steps" are a line without points; "bars" are stacked on those of other series.
    """

    x: Sequence[float | str]
    y: Sequence[float | str]
    name: str = ""  # the text in the legend; empty for none
    kind: Literal["points", "line", "steps", "bars"] = "points"
    colour: str | Sequence[float] = ACCENT  # a colour, or a number for each point on the plot's scale
    mark: Mark = "circle"  # the mark of a point
    thin: bool = False  # whether a line is one of many, and stays in the background
    low: Sequence[float] = ()  # lower ends of the intervals; of bars, along their length. Empty without intervals
    high: Sequence[float] = ()  # upper ends of the intervals
    trials: Sequence[int] = ()  # of each point, or of the whole line; the page shows its hyperparameters at the pointer
    hover: Sequence[str] = ()  # the text of each point at the page's pointer

    @property
    def counts(self) -> list[str]:
        """The text beside each point: `×5` at the first of five points at one place, else nothing; rings have none."""
        places = list(zip(self.x, self.y, strict=True))
        left = Counter(places) if self.mark != "ring" else Counter()
        return [f"×{number}" if (number := left.pop(place, 1)) > 1 else "" for place in places]


@dataclass(frozen=True)
class Facet:
    """One pair of axes of a plot."""

    x: Axis
    series: Sequence[Series]  # those below first
    caption: str = ""  # where it stands alone


@dataclass(frozen=True)
class Plot:
    """A plot of one or more facets, which share the vertical axis."""

    title: str
    caption: str
    y: Axis
    facets: Sequence[Facet]  # from left to right
    numbers: str = ""  # the main numbers in words, for readers who cannot see the plot
    scale: tuple[str, float, float] | None = None  # of coloured points: name and ends; None without such points

    @property
    def legend(self) -> bool:
        """Whether series have names."""
        return any(series.name for facet in self.facets for series in facet.series)


@dataclass(frozen=True)
class AccuracyAxis:
    """The range of accuracies, percent, that starts at the lowest value that is no outlier."""

    low: float  # lower end
    high: float  # upper end
    floor: float  # values below it are outliers, and off the axis

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
        """The height of marks for values off the axis."""
        return self.low + 0.02 * (self.high - self.low)

    def place(self, value: float) -> float:
        """Return the height of a value's mark."""
        return self.edge if value < self.floor else value

    def labelled(self, label: str) -> Axis:
        """Return the axis of a plot."""
        return Axis(label, ends=(self.low, self.high))
