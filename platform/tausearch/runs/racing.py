"""The race of a few candidates over fresh runs: the next runs, the eliminated candidates, the winner and its error.

All candidates run on the same rounds, each a fresh seed and validation split. Candidates are compared in pairs within
rounds, so an effect of the round on all of them, such as an easy split, cancels. The spread of the differences is
estimated over all candidates together (randomised complete blocks): one pair alone has too few degrees of freedom.

Sources: racing, Birattari et al. 2002 (F-Race) and Lopez-Ibanez et al. 2016 (irace, which offers the paired t-test);
the residual variance of complete blocks, Montgomery, Design and Analysis of Experiments, ch. 4.
Departs from irace: the level is divided by the number of rivals and of tests (Bonferroni). It bounds how often a race
loses its best candidate, not how often a comparison does. A rank test (Wilcoxon, as in Optuna's pruner) needs five
rounds before it can reject at 5 %, one-sided; our races have two to five.
"""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

LEVEL = 0.05  # upper bound on how often a whole race eliminates its best candidate
FIRST_LOOK = 2  # rounds before the first test, as one has no spread; so the usual two rounds eliminate no candidate

Known = Mapping[tuple[int, int], float | None]
"""(candidate, round), rounds from 0, to the score of the run, more is better; None for a run that ended without one."""


@dataclass(frozen=True)
class Race:
    """The state of a race."""

    candidates: tuple[int, ...]  # in the order in which ties are broken
    rounds: int
    alive: tuple[int, ...]  # those that can still win
    eliminated: Mapping[int, int] = field(default_factory=dict)  # candidate to the rounds that it ran
    out: tuple[int, ...] = ()  # with a run without a value: what may diverge is not chosen
    wanted: tuple[tuple[int, int], ...] = ()  # candidate and round of the runs to start now
    values: Mapping[int, tuple[float, ...]] = field(default_factory=dict)  # of those not out: a score for each round

    @property
    def over(self) -> bool:
        """Whether no run is left to start."""
        return not self.wanted

    def mean(self, candidate: int) -> float:
        """Return the mean score of a candidate, rounded so that equal means are equal floats."""
        return round(statistics.fmean(self.values[candidate]), 9)


@dataclass(frozen=True)
class Verdict:
    """The winner of a race. All numbers are in the unit of the scores."""

    chosen: int  # the candidate with the highest mean over all rounds; ties go to the earlier
    mean: float  # of the chosen candidate
    error: float | None  # standard error of the mean; None after one round
    second: int | None = None  # the candidate with the smallest distance to the winner; None without a rival
    ahead: float | None = None  # mean difference between winner and second, over the rounds that both have run
    ahead_error: float | None = None  # standard error of the difference; None after one round


def race(candidates: Sequence[int], rounds: int, known: Known, resolution: float = 0.0) -> Race:
    """Return the state of a race, whatever the order in which its runs ended.

    The race is repeated from its first round. A run that the race would not have started therefore changes nothing,
    unless the run ended without a value. `resolution`, the step of a score that one validation image makes, is a lower
    bound on the spread of differences. Ties are broken in the order of `candidates`.
    """
    out = tuple(each for each in candidates if any(known.get((each, k), 0.0) is None for k in range(rounds)))
    alive = tuple(each for each in candidates if each not in out)
    eliminated: dict[int, int] = {}
    wanted: tuple[tuple[int, int], ...] = ()
    level = LEVEL / (max(1, len(candidates) - 1) * max(1, rounds - FIRST_LOOK))
    for done in range(min(FIRST_LOOK, rounds), rounds + 1):
        wanted = tuple((each, k) for k in range(done) for each in alive if (each, k) not in known)
        if wanted:
            break
        if done < rounds:
            losers = _beaten({each: _first(known, each, done) for each in alive}, level, resolution)
            eliminated |= dict.fromkeys(losers, done)
            alive = tuple(each for each in alive if each not in losers)
    values = {each: _first(known, each, eliminated.get(each, rounds)) for each in (*alive, *eliminated)}
    return Race(tuple(candidates), rounds, alive, eliminated, out, wanted, values)


def verdict(race: Race, resolution: float = 0.0) -> Verdict | None:
    """Return the winner of a race; None while runs are wanted, or if no candidate is left."""
    if not race.over or not race.alive:
        return None
    chosen = max(race.alive, key=race.mean)  # the first of equals
    own = race.values[chosen]
    error = math.sqrt(_at_least(statistics.variance(own), resolution) / len(own)) if len(own) > 1 else None
    won = Verdict(chosen, statistics.fmean(own), error)
    # `map` stops with the shorter of two: at the rounds that both candidates have run.
    ahead = {k: statistics.fmean(map(operator.sub, own, other)) for k, other in race.values.items() if k != chosen}
    if not ahead:
        return won
    second = min(ahead, key=lambda each: (ahead[each], race.candidates.index(each)))
    points, spread = lead(race, chosen, second, resolution)
    return replace(won, second=second, ahead=points, ahead_error=spread)


def lead(race: Race, one: int, other: int, resolution: float = 0.0) -> tuple[float, float | None]:
    """Return the mean difference of two candidates over the rounds that both have run, and its standard error.

    The error is None after one round, and 0 for a candidate and itself.
    """
    own, others = race.values[one], race.values[other]
    shared = min(len(own), len(others))
    points = statistics.fmean(map(operator.sub, own[:shared], others[:shared]))
    if one == other:
        return points, 0.0
    block = [values[:shared] for values in race.values.values() if len(values) >= shared]
    spread = None if shared < 2 else math.sqrt(2 * _at_least(residual_variance(block), resolution) / shared)
    return points, spread


def residual_variance(block: Sequence[Sequence[float]]) -> float:
    """Return the variance of values about the sum of their candidate's and their round's mean.

    It is half the variance of the difference of two candidates in one round. With two candidates it is half the sample
    variance of their differences, so the test that uses it equals the paired t-test.

    Args:
        block: A row per candidate, a column per round; at least two of each.

    Returns:
        The residual sum of squares over (candidates - 1) * (rounds - 1) degrees of freedom.
    """
    of_round = [statistics.fmean(column) for column in zip(*block, strict=True)]
    overall = statistics.fmean(of_round)
    residuals = (
        value - statistics.fmean(values) - mean + overall
        for values in block
        for value, mean in zip(values, of_round, strict=True)
    )
    return math.fsum(each**2 for each in residuals) / ((len(block) - 1) * (len(of_round) - 1))


def _beaten(values: Mapping[int, Sequence[float]], level: float, resolution: float) -> list[int]:
    """Return the candidates that are behind the leader by more than chance, one-sided at a level."""
    from scipy.stats import t  # takes a third of a second to import, too long for `status`

    if len(values) < 2:
        return []
    block = list(values.values())
    rounds, front = len(block[0]), max(map(statistics.fmean, block))
    error = math.sqrt(2 * _at_least(residual_variance(block), resolution) / rounds)
    margin = float(t.isf(level, (len(block) - 1) * (rounds - 1))) * error
    return [each for each, own in values.items() if front - statistics.fmean(own) > margin]


def _at_least(variance: float, resolution: float) -> float:
    """Return the variance of a value, at least that of a difference of the smallest step."""
    return max(variance, resolution**2 / 2)


def _first(known: Known, candidate: int, rounds: int) -> tuple[float, ...]:
    """Return the values of a candidate in its first rounds, up to the first unknown value."""
    found = []
    for k in range(rounds):
        value = known.get((candidate, k))
        if value is None:
            break
        found.append(value)
    return tuple(found)
