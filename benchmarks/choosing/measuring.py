"""What each way to choose is worth: the test accuracy of what it chooses, over many searches at the same price."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.choosing.making import processes
from benchmarks.choosing.strategies import Draw, Search, chosen, draws_of, replayed
from tausearch.studies import ConfigurationTable, read_table, table_files

PRICES = (12, 18, 24)  # trials that are not stopped; 18 is that of a search by default with its re-evaluations
RESAMPLES = 50  # tables drawn with replacement
SEARCHES = {"tpe": 10, "random": 10, "gp": 2}  # on each of them; a Gaussian process takes seconds for one
SEARCHED = (
    *(Search(a, s, w) for w in (False, True) for a in ("random", "tpe") for s in ("none", "asha", "median")),
    *(Search("gp", "none", w) for w in (False, True)),
)
BASELINE = Search("random")


@dataclass(frozen=True)
class Estimate:
    """A mean over searches with its 95 % interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> Estimate:
        """Estimate the mean of something measured in searches on resampled tables.

        The interval is the bootstrap's with a standard error, 1.96 standard deviations of a resampled table's mean. Of
        their variance the part is taken off which the chance of the few searches on each makes (the variance within,
        over their number), and the variance of the mean over all searches is added.

        Args:
            values: A value per resampled table and search on it, (resamples, searches).

        Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapters 6 and 12; of the variance of a
        random effect, Searle, Casella and McCulloch 1992, Variance Components, section 3.5.
        """
        means = values.mean(axis=1)
        chance = values.var(axis=1, ddof=1).mean() / values.shape[1]
        variance = max(means.var(ddof=1) - chance, 0.0) + means.var(ddof=1) / len(means)
        mean, half = float(means.mean()), 1.96 * math.sqrt(variance)
        return cls(mean, mean - half, mean + half)

    @classmethod
    def over(cls, estimates: Sequence[Estimate]) -> Estimate:
        """Return the mean of independent estimates, each of the same weight, with its 95 % interval."""
        mean = sum(each.mean for each in estimates) / len(estimates)
        half = math.hypot(*(each.high - each.mean for each in estimates)) / len(estimates)
        return cls(mean, mean - half, mean + half)

    def text(self, sign: str = "") -> str:
        """Return `90.1 (89.8 to 90.4)`."""
        return f"{self.mean:{sign}.2f} ({self.low:{sign}.2f} to {self.high:{sign}.2f})"

    @property
    def is_settled(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Outcome:
    """What a way to choose has come to, at a price."""

    search: Search  # the search
    reevaluate: bool  # whether its best trials were re-evaluated
    price: int  # trials that are not stopped, for which all its trials and re-evaluations are had
    accuracy: Estimate  # test accuracy of what is chosen, percent
    gain: Estimate  # what that is more than by random search, not re-evaluated, in the same draws at the same price
    searches: int  # number of searches

    @property
    def label(self) -> str:
        """What it is called: `tpe, asha, paper first, re-evaluated`."""
        parts = [self.search.algorithm, *([self.search.scheduler] if self.search.scheduler != "none" else [])]
        return ", ".join([*parts, *["paper first"] * self.search.warm, *["re-evaluated"] * self.reevaluate])


def outcomes(table: ConfigurationTable, resamples: int = RESAMPLES, prices: Sequence[int] = PRICES) -> list[Outcome]:
    """Measure every way to choose on a table; the best price comes last."""
    draws = draws_of(table, resamples, max(SEARCHES.values()))
    ways = list(itertools.product(SEARCHED, prices, (False, True)))
    with processes() as pool:
        jobs = [(search, draw, prices) for search in SEARCHED for row in draws for draw in row[: _count(search)]]
        found = iter(pool.map(_measured, jobs, chunksize=16))
        tested = {s: np.array([[next(found) for _ in row[: _count(s)]] for row in draws]) for s in SEARCHED}
    return [_outcome(tested, search, prices.index(price), reevaluate, price) for search, price, reevaluate in ways]


def _count(search: Search) -> int:
    return SEARCHES[search.algorithm]


def _measured(job: tuple[Search, Draw, Sequence[int]]) -> list[list[float]]:
    """Return the test accuracy of what one search chooses, for each price, not re-evaluated and re-evaluated."""
    search, draw, prices = job
    steps = draw.table.spec.steps
    found = replayed(search, draw, max(prices) * steps)
    picked = [[chosen(draw, found, price * steps, reevaluate) for reevaluate in (False, True)] for price in prices]
    return [[0.0 if number is None else draw.table.test[number] for number in pair] for pair in picked]


def _outcome(
    tested: dict[Search, NDArray[np.float64]], search: Search, place: int, reevaluate: bool, price: int
) -> Outcome:
    own = tested[search][:, :, place, int(reevaluate)]
    baseline = tested[BASELINE][:, : own.shape[1], place, 0]
    return Outcome(search, reevaluate, price, Estimate.of(own), Estimate.of(own - baseline), own.size)


def best_test(table: ConfigurationTable) -> float:
    """Return the highest test accuracy of a table: that of the luckiest of its best configurations, so rather high."""
    return max(table.test.values())


def _rows() -> Iterator[dict[str, Any]]:
    for table in map(read_table, table_files()):
        for each in sorted(outcomes(table), key=lambda each: (each.price, -each.accuracy.mean)):
            yield {
                "benchmark": table.spec.benchmark,
                "configurations": len(table.test),
                "price": each.price,
                "way": each.label,
                "test accuracy": each.accuracy.text(),
                "regret": best_test(table) - each.accuracy.mean,
                "more than random": each.gain.text("+"),
            }


def run() -> list[dict[str, Any]]:
    """Replay every way to choose on all tables that there are."""
    return list(_rows()) or [{"tables": "none yet; `python -m benchmarks.choosing table digits` records one"}]
