"""The points of a grid, and their order in a search that tries only some of them."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence

from search_spaces import Dimension, Range, Scalar
from tausearch.runs import KnownPoint
from tausearch.studies.warm_start import without_repeats
from trainables.randomness import derive_seed

Point = dict[str, Scalar]
_TRIES_ALL = "optuna:BruteForceSampler"  # the only one of Optuna's samplers that tries each point of a space once
SPREAD = 64  # points that are chosen one by one, which takes time; after them a shuffle is as even


def grid_size(space: Mapping[str, Dimension], known: Sequence[KnownPoint] = ()) -> int:
    """Return the number of different points of a grid search: those of the grid and of the warm start."""
    values = _values(space)
    beside = (each.point for each in known if any(each.point[name] not in there for name, there in values.items()))
    return math.prod(len(set(there)) for there in values.values()) + len(without_repeats(beside))


def point_count(algorithm: str, space: Mapping[str, Dimension], known: Sequence[KnownPoint]) -> int | None:
    """Return the number of different points that an algorithm tries, each once; None for one without such a number.

    A warm start brings points to a grid; those of a space are among its own.
    """
    if algorithm == "grid":
        return grid_size(space, known)
    if algorithm != _TRIES_ALL or any(isinstance(each, Range) and not each.integer for each in space.values()):
        return None
    ends = ((each.low, each.high) if isinstance(each, Range) else (1, len(each.choices)) for each in space.values())
    return math.prod(int(high) - int(low) + 1 for low, high in ends)


def grid_points(space: Mapping[str, Dimension]) -> list[Point]:
    """Return all points of the grid; the last hyperparameter varies fastest."""
    return [dict(zip(space, point, strict=True)) for point in itertools.product(*_values(space).values())]


def _values(space: Mapping[str, Dimension]) -> dict[str, list[Scalar]]:
    return {name: [dimension.typed(value) for value in dimension.grid] for name, dimension in space.items()}


def spread_order(points: Sequence[Point], first: Sequence[Point], count: int, seed: int) -> list[Point]:
    """Return all points of a grid in an order whose first points cover all values of all hyperparameters evenly.

    In the order of the grid the first points differ in the last hyperparameters alone. Here the next point is always
    the one whose most frequent value was taken least often, relative to the number of values. A shuffle with the seed
    of the search breaks ties. The first k points are the same for every `count` from k on, so a search can be extended.
    Points that are tried before, `first`, count as taken. If `count` is all points, the order is that of the grid.
    """
    if count >= len(without_repeats([*first, *points])):
        return list(points)
    left = list(points)
    random.Random(derive_seed(seed, "grid")).shuffle(left)
    taken = Counter(value for point in first for value in point.items())
    values = Counter(name for name, _ in {value for point in points for value in point.items()})
    chosen: list[Point] = []
    for _ in range(min(count, SPREAD, len(left))):
        at = min(range(len(left)), key=lambda number: _shares(left[number], taken, values))
        chosen.append(left.pop(at))
        taken.update(chosen[-1].items())
    return [*chosen, *left]


def _shares(point: Point, taken: Mapping[tuple[str, Scalar], int], values: Mapping[str, int]) -> list[int]:
    """Return the counts of a point's values, each times the number of values of its hyperparameter, largest first."""
    return sorted((taken[name, value] * values[name] for name, value in point.items()), reverse=True)
