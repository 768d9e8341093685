"""The race of a few candidates over fresh runs, held to scipy, to least squares and to simulated tables."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from tausearch.runs import Verdict, race, verdict
from tausearch.runs.racing import LEVEL, Race, residual_variance

Table = np.ndarray  # (candidates, rounds), percent


def run(table: Table, resolution: float = 0.0, order: np.random.Generator | None = None) -> tuple[Race, set]:
    """Run a whole race on a table of what would come of every run; returns it, and the runs that it took.

    All that is wanted runs at once, or one run at a time in an order that is drawn.
    """
    known: dict[tuple[int, int], float | None] = {}
    while True:
        standing = race(range(len(table)), table.shape[1], known, resolution)
        if standing.over:
            return standing, set(known)
        wanted = standing.wanted if order is None else [tuple(order.choice(standing.wanted).tolist())]
        known |= {cell: None if np.isnan(table[cell]) else float(table[cell]) for cell in wanted}


def tables(
    count: int, candidates: int, rounds: int, gaps: float = 0.0, spread: float = 0.7, images: int = 149
) -> list[Table]:
    """Simulated accuracies: a candidate's own, what a round does to all of them, noise, counted in images."""
    rng = np.random.default_rng(7)
    own = 90 - gaps * np.arange(candidates)[:, None]
    drawn = [own + rng.normal(0, 2, (1, rounds)) + rng.normal(0, spread, (candidates, rounds)) for _ in range(count)]
    return [np.round(each * images / 100) * 100 / images for each in drawn]


def test_two_rounds_run_at_once_and_eliminate_no_candidate() -> None:
    standing = race([4, 1], 3, {})
    assert standing.wanted == ((4, 0), (1, 0), (4, 1), (1, 1)) and verdict(standing) is None
    standing, took = run(np.array([[90.0, 91.0], [10.0, 11.5]]))
    assert len(took) == 4 and not standing.eliminated


def test_a_candidate_far_behind_is_eliminated_and_the_others_run_on() -> None:
    table = np.array([[90.0, 92.0, 91.0, 90.0], [90.5, 91.5, 90.5, 90.5], [50.0, 52.5, 51.0, 50.0]])
    standing, took = run(table)
    assert dict(standing.eliminated) == {2: 2}
    assert took == {(c, k) for c in (0, 1) for k in range(4)} | {(2, 0), (2, 1)}
    assert standing.values == {0: (90, 92, 91, 90), 1: (90.5, 91.5, 90.5, 90.5), 2: (50, 52.5)}


@pytest.mark.parametrize(("rounds", "tests"), [(3, 1), (4, 2), (5, 3)])
def test_the_second_of_two_candidates_is_eliminated_exactly_where_a_paired_t_test_rejects(
    rounds: int, tests: int
) -> None:
    rng, agreed = np.random.default_rng(3), {True: 0, False: 0}
    for _ in range(300):
        table = rng.normal([[90.0], [89.0]], 0.5 / tests, (2, rounds))
        front, behind = sorted(table[:, :2], key=lambda values: -values.mean())
        p = stats.ttest_rel(front, behind, alternative="greater").pvalue
        standing, _ = run(table)
        assert (2 in standing.eliminated.values()) == (p < LEVEL / tests)
        agreed[2 in standing.eliminated.values()] += 1
    assert min(agreed.values()) > 10


def test_of_three_candidates_each_is_tested_at_half_the_level() -> None:
    rng, agreed = np.random.default_rng(3), {True: 0, False: 0}
    for _ in range(300):
        table = rng.normal([[90.0], [89.0], [89.0]], 0.4, (3, 3))
        front, error = table[:, :2].mean(axis=1), math.sqrt(residual_variance(table[:, :2].tolist()))
        behind = {k for k in range(3) if stats.t.sf((front.max() - front[k]) / error, 2) < LEVEL / 2}
        assert set(run(table)[0].eliminated) == behind
        agreed[bool(behind)] += 1
    assert min(agreed.values()) > 10


@pytest.mark.parametrize(("candidates", "rounds"), [(2, 2), (3, 2), (4, 5)])
def test_the_residual_variance_is_that_of_least_squares(candidates: int, rounds: int) -> None:
    table = np.random.default_rng(candidates * rounds).normal(90, 2, (candidates, rounds))
    cells = list(itertools.product(range(candidates), range(rounds)))
    design = np.array([[*(c == i for i in range(candidates)), *(k == j for j in range(rounds))] for c, k in cells])
    values = np.array([table[cell] for cell in cells])
    fitted = design @ np.linalg.lstsq(design.astype(float), values, rcond=None)[0]
    expected = ((values - fitted) ** 2).sum() / (len(cells) - (candidates + rounds - 1))
    assert residual_variance(table.tolist()) == pytest.approx(expected)


@pytest.mark.parametrize(("candidates", "rounds"), [(2, 3), (3, 5), (5, 5)])
def test_equal_candidates_are_rarely_eliminated(candidates: int, rounds: int) -> None:
    lost = [0 in run(table, 100 / 149)[0].eliminated for table in tables(500, candidates, rounds)]
    assert np.mean(lost) < LEVEL


def test_different_candidates_need_fewer_runs_and_the_best_is_chosen() -> None:
    ran = [run(table, 100 / 149) for table in tables(200, 4, 5, gaps=2.0)]
    assert np.mean([len(took) for _, took in ran]) < 15
    assert np.mean([verdict(standing).chosen == 0 for standing, _ in ran]) > 0.99


def test_the_order_in_which_runs_end_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    for table in tables(100, 4, 5, gaps=1.0):
        table[2, 3] = np.nan
        one, other = run(table), run(table, order=rng)
        assert one[0].alive == other[0].alive
        assert verdict(one[0]) == verdict(other[0])


def test_a_value_behind_an_unknown_round_waits_for_it() -> None:
    known = {(0, 0): 90.0, (0, 2): 10.0, (1, 0): 91.0}
    assert race([0, 1], 3, known).values == {0: (90.0,), 1: (91.0,)}


def test_a_run_that_the_race_would_not_start_changes_nothing() -> None:
    for table in tables(50, 4, 5, gaps=2.0):
        standing, took = run(table)
        everything = {(c, k): float(table[c, k]) for c in range(4) for k in range(5)}
        assert len(took) < len(everything)
        assert race(range(4), 5, everything) == standing


def test_a_candidate_with_a_diverged_run_is_out_and_those_that_it_had_beaten_are_back() -> None:
    table = np.array([[95.0, 95.1, 95.0, np.nan], [80.0, 80.2, 80.0, 80.0], [79.9, 80.3, 80.1, 80.1]])
    standing, took = run(table)
    assert standing.out == (0,) and standing.alive == (1, 2)
    assert {(1, 3), (2, 3)} <= took


def test_without_a_candidate_that_finishes_none_is_chosen() -> None:
    for standing in (run(np.array([[np.nan, 1.0], [2.0, np.nan]]))[0], race([], 3, {})):
        assert standing.over and verdict(standing) is None


def test_the_verdict_is_the_best_mean_with_the_errors_of_textbooks() -> None:
    table = np.array([[90.0, 92.0, 91.0], [91.0, 92.5, 92.0]])
    won = verdict(run(table)[0])
    differences = table[1] - table[0]
    assert won == Verdict(
        chosen=1,
        mean=pytest.approx(table[1].mean()),
        error=pytest.approx(stats.sem(table[1])),
        second=0,
        ahead=pytest.approx(differences.mean()),
        ahead_error=pytest.approx(stats.sem(differences)),
    )


def test_an_eliminated_candidate_does_not_win_by_the_rounds_that_it_was_spared() -> None:
    standing, _ = run(np.array([[90.0, 92.0, 10.0, 10.0], [90.5, 91.5, 10.5, 10.5], [60.0, 62.5, 0.0, 0.0]]))
    found = verdict(standing)
    assert standing.mean(2) > standing.mean(1) > standing.mean(0) and found is not None and found.chosen == 1


def test_ties_go_to_the_earlier_candidate() -> None:
    known = {(7, 0): 90.0, (2, 0): 90.0}
    assert verdict(race([7, 2], 1, known)) == Verdict(7, 90.0, None, 2, 0.0, None)
    assert verdict(race([2, 7], 1, known)).chosen == 2


def test_equal_numbers_of_right_images_are_a_tie() -> None:
    """The two sums differ in their last bit: 101 + 103 and 100 + 104 images of 149."""
    images = {(3, 0): 101, (3, 1): 103, (1, 0): 100, (1, 1): 104}
    known = {run: 100 * right / 149 for run, right in images.items()}
    means = [sum(known[candidate, k] for k in (0, 1)) / 2 for candidate in (3, 1)]
    assert means[0] < means[1] and verdict(race([3, 1], 2, known)).chosen == 3


def test_of_two_equal_seconds_the_earlier_candidate_is_named() -> None:
    known = {(7, 0): 90.0, (5, 0): 80.0, (2, 0): 80.0}
    assert verdict(race([7, 5, 2], 1, known)).second == 5
    assert verdict(race([7, 2, 5], 1, known)).second == 2


def test_of_equal_seconds_an_eliminated_one_is_named_if_it_is_the_earlier_candidate() -> None:
    standing, _ = run(np.array([[90.0] * 4, [80.0] * 4, [90.0, 90.0, 70.0, 70.0]]))
    assert dict(standing.eliminated) == {1: 2}
    won = verdict(standing)
    assert (won.chosen, won.second, won.ahead) == (0, 1, 10.0)


def test_the_second_may_be_an_eliminated_candidate_over_the_rounds_that_it_ran() -> None:
    table = np.array([[90.0, 92.0, 40.0], [50.0, 52.01, 99.0], [49.0, 51.0, 99.0]])
    won = verdict(run(table)[0])
    assert (won.chosen, won.second) == (0, 1)
    assert won.ahead == pytest.approx(39.995)
    assert won.ahead_error == pytest.approx(math.sqrt(2 * residual_variance(table[:, :2].tolist()) / 2))


def test_a_single_candidate_is_run_for_an_honest_value() -> None:
    standing, took = run(np.array([[90.0, 91.0, 92.0]]))
    assert len(took) == 3
    assert verdict(standing) == Verdict(0, 91.0, pytest.approx(stats.sem([90, 91, 92])))


def test_a_candidate_that_is_out_counts_among_the_rivals() -> None:
    rng, agreed = np.random.default_rng(3), {True: 0, False: 0}
    for _ in range(300):
        table = rng.normal([[90.0], [89.0], [89.0]], 0.2, (3, 3))
        table[2, 0] = np.nan
        front, behind = sorted(table[:2, :2], key=lambda values: -values.mean())
        p = stats.ttest_rel(front, behind, alternative="greater").pvalue
        standing, _ = run(table)
        assert (2 in standing.eliminated.values()) == (p < LEVEL / 2)
        agreed[2 in standing.eliminated.values()] += 1
    assert min(agreed.values()) > 10


def test_the_better_of_two_wins_by_a_hundredth_of_a_point() -> None:
    standing, _ = run(np.array([[90.01, 91.0], [90.01, 91.02]]))
    won = verdict(standing)
    assert won is not None and (won.chosen, won.second) == (1, 0)


def test_equal_values_of_a_winner_are_not_certain_where_one_image_is_a_point() -> None:
    won = verdict(run(np.array([[90.0, 90.0]]))[0], resolution=1.0)
    assert won is not None and won.error == pytest.approx(0.5)


def test_equal_differences_are_not_taken_for_certain_where_one_image_is_a_point() -> None:
    table = np.array([[91.0, 92.0, 90.0], [90.0, 91.0, 90.0]])
    assert run(table)[0].eliminated == {1: 2}
    standing, _ = run(table, resolution=1.0)
    assert not standing.eliminated
    won = verdict(standing, resolution=1.0)
    assert won.ahead_error == pytest.approx(1.0 / math.sqrt(3))
