"""The points of a grid of which only some are tried: spread over all values, the same again, and extended."""

from __future__ import annotations

from collections import Counter

import pytest

from search_spaces import Choices, Range
from tausearch.runs import KnownPoint
from tausearch.studies import grid_size, point_count
from tausearch.studies.grid import grid_points, spread_order

SPACE = {
    "alpha": Range(low=1, high=9, grid=(1, 3, 9)),
    "lr": Range(low=0.1, high=0.4, grid=(0.1, 0.2, 0.4)),
    "rank": Range(low=2, high=8, integer=True, grid=(2, 8)),
}


@pytest.mark.parametrize("seed", range(5))
def test_the_first_points_have_every_value_about_equally_often(seed: int) -> None:
    tried = spread_order(grid_points(SPACE), [], 6, seed)[:6]
    counts = {name: Counter(point[name] for point in tried) for name in SPACE}
    assert set(counts["alpha"].values()) == {2} == set(counts["lr"].values())
    assert counts["alpha"].keys() == {1.0, 3.0, 9.0} and min(counts["rank"].values()) >= 2


def test_what_is_tried_ahead_counts(seed: int = 0) -> None:
    every = grid_points(SPACE)
    ahead = [point for point in every if point["alpha"] == 1.0]
    assert {point["alpha"] for point in spread_order(every, ahead, 8, seed)[:8]} == {3.0, 9.0}


def test_the_most_frequent_value_of_a_point_decides_first() -> None:
    uneven, even = {"alpha": 1.0, "lr": 0.4}, {"alpha": 3.0, "lr": 0.2}
    ahead = [{"alpha": 1.0, "lr": 0.1}] * 3 + [{"alpha": 3.0, "lr": 0.2}] * 2  # 3 and 0 times, or twice 2 times
    for points in ([uneven, even], [even, uneven]):
        assert spread_order(points, ahead, 1, 0)[0] == even


def test_all_points_are_there_and_more_trials_begin_with_the_same_ones() -> None:
    every = grid_points(SPACE)
    some, more = spread_order(every, [], 5, 3), spread_order(every, [], 11, 3)
    assert more[:5] == some[:5] and some == spread_order(every, [], 5, 3)
    for points in (some, more):
        assert len(points) == len(every) == grid_size(SPACE) and all(point in points for point in every)
    assert spread_order(every, [], 5, 4)[:5] != some[:5]


def test_the_size_is_known_without_the_points() -> None:
    large = {f"x{n}": Range(low=0.0, high=9.0, grid=tuple(range(10))) for n in range(30)}
    inside, outside = (KnownPoint(origin="", point=dict.fromkeys(large, value)) for value in (9.0, 9.5))
    assert grid_size(large, [inside, outside, outside]) == 10**30 + 1


def test_the_points_of_a_space_are_counted_for_the_sampler_that_tries_each_once() -> None:
    brute, kinds = "optuna:BruteForceSampler", Choices(choices=("a", "b", "c"))
    whole = {"kind": kinds, "rank": Range(low=2, high=5, integer=True, grid=(2,))}
    counts = [point_count(algorithm, whole, ()) for algorithm in (brute, "grid", "random", "optuna:QMCSampler")]
    assert counts == [12, 3, None, None] and point_count(brute, {}, ()) == 1
    assert point_count(brute, {**whole, "lr": Range(low=0.1, high=1.0, grid=(1.0,))}, ()) is None


def test_the_whole_grid_keeps_its_order() -> None:
    every = grid_points(SPACE)
    assert spread_order(every, [], 18, 0) == spread_order(every, every[:2], 18, 0) == every


def test_a_grid_is_spread_unless_all_of_it_is_tried_with_the_points_beside_it() -> None:
    every, beside = (
        grid_points(SPACE),
        [{"alpha": 1.5, "lr": 0.1, "rank": 2}] * 2 + [{**grid_points(SPACE)[0], "lr": 0.3}],
    )
    assert spread_order(every, beside, 19, 0)[:4] != every[:4] and spread_order(every, beside, 20, 0) == every
