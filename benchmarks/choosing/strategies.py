"""One way to choose, on one recorded table: a search replayed as far as its price allows, and re-evaluated or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from tausearch.runs import SearchSpec, race, verdict
from tausearch.studies import USUAL_REEVALUATION, ConfigurationTable, RecordedTrials, Replay, replay

CANDIDATES, ROUNDS = USUAL_REEVALUATION.best, USUAL_REEVALUATION.runs  # three best, twice each


@dataclass(frozen=True)
class Search:
    """A search of some algorithm, without its length."""

    algorithm: str  # the search algorithm
    scheduler: str = "none"  # the rule for stopping early
    warm: bool = False  # whether what the paper chose is tried first


@dataclass(frozen=True)
class Draw:
    """One search's share of chance: its configurations, its validation split, the seed of its algorithm."""

    table: ConfigurationTable  # everything that is recorded
    numbers: tuple[int, ...]  # configurations that the search can find, of those of the table
    split: int  # seed of the validation split that it searches on
    seed: int  # seed of its algorithm


def draws_of(table: ConfigurationTable, resamples: int, searches: int) -> list[list[Draw]]:
    """Draw tables with replacement from the random configurations of a table, and searches on each.

    A configuration that is drawn twice is there once: no search gains from a second one that is the same. The same
    arguments draw the same.
    """
    known = 1 + len(table.spec.warm_start)
    numbers = sorted(table.test)
    random = [number for number in numbers if number >= known]
    drawn = []
    for resample in range(resamples):
        generator = np.random.default_rng([20221, resample])
        picked = set(generator.choice(random, size=len(random)).tolist())
        there = (*numbers[:known], *sorted(picked))
        splits = generator.choice(table.splits, size=searches)
        drawn.append([Draw(table, there, int(s), resample * searches + k) for k, s in enumerate(splits)])
    return drawn


def replayed(search: Search, draw: Draw, tasks: int) -> Replay:
    """Replay a search on a draw until it has trained so many tasks, or has tried every configuration."""
    spec = _spec(search, draw, tasks)
    return replay(spec, RecordedTrials(draw.table.validated(draw.split, draw.numbers), spec.space))


def _spec(search: Search, draw: Draw, tasks: int) -> SearchSpec:
    spec = draw.table.spec
    shortest = spec.steps if search.scheduler == "none" else 3  # no trial is stopped before its third task
    changes = {
        "algorithm": search.algorithm,
        "scheduler": search.scheduler,
        "warm_start": spec.warm_start if search.warm else (),
        "trials": min(len(draw.numbers), -(-tasks // shortest)),
        "seed": draw.seed,
    }
    return spec.model_copy(update=changes)


def chosen(draw: Draw, found: Replay, tasks: int, reevaluate: bool) -> int | None:
    """Return what a search, replayed on `draw`, chooses for a price of `tasks` trained; None if no trial has finished.

    With `reevaluate` the price includes re-evaluations of the best trials on the other splits.
    """
    price = CANDIDATES * ROUNDS * draw.table.spec.steps if reevaluate else 0
    best = _best_first(draw, found, tasks - price)
    if not best:
        return None
    return _reevaluated(draw, best[:CANDIDATES]) if reevaluate else best[0]


def _best_first(draw: Draw, found: Replay, tasks: int) -> list[int]:
    """Return the configurations that a search has run to the end for a price, the best first; ties to the earlier."""
    costs = accumulate(cost for _, cost in found.ends)
    runs = draw.table.runs["search", draw.split]
    finished = [
        (-(runs[number].value or 0.0), place, number)
        for place, (number, (status, _), cost) in enumerate(zip(found.tried, found.ends, costs, strict=True))
        if status == "complete" and cost <= tasks
    ]
    return [number for _, _, number in sorted(finished)]


def _reevaluated(draw: Draw, candidates: list[int]) -> int:
    """Return who wins the race of some configurations over the splits that the search has not seen."""
    fresh = [split for split in draw.table.splits if split != draw.split][:ROUNDS]
    known: Mapping[tuple[int, int], float | None] = {
        (number, k): draw.table.runs["search", split][number].value
        for number in candidates
        for k, split in enumerate(fresh)
    }
    won = verdict(race(candidates, len(fresh), known))
    return candidates[0] if won is None else won.chosen
