"""The state of a re-evaluation as it is told: values of all candidates, units, errors of at least one image, gains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tausearch.runs import (
    Constraint,
    DataFacts,
    Objective,
    Reevaluate,
    Reevaluation,
    ReevaluationSpec,
    SearchSpec,
    StopRule,
    TrialSummary,
    gain_of,
    reevaluation_of,
)
from tests.support.runs.trials import make_trial
from trainables.metrics import VALIDATION

FACTS = DataFacts(digest="0", train=1000, evaluation=200)  # one image is 0.5 points
TRIALS = [make_trial(number, value=value) for number, value in enumerate((80.0, 95.0, 90.0))]


def search(spec: SearchSpec, rounds: int, best: int = 2, **changes: Any) -> SearchSpec:
    return spec.model_copy(update={"data": FACTS, "reevaluate": Reevaluate(best=best, runs=rounds), **changes})


def after(spec: SearchSpec, fresh: dict[int, tuple[float, ...]], trials: list[TrialSummary] = TRIALS) -> Reevaluation:
    again = ReevaluationSpec.of(spec)
    runs = [
        make_trial(again.number(each, k), value=value) for each, found in fresh.items() for k, value in enumerate(found)
    ]
    return reevaluation_of(again, trials, runs)


def test_there_may_be_more_of_them_than_trials_of_a_search(spec: SearchSpec) -> None:
    most = spec.model_copy(update={"trials": 2000, "reevaluate": Reevaluate(best=1000, runs=100, start=True)})
    assert ReevaluationSpec.of(most).trials == 100_100


def test_an_eliminated_candidate_is_told_with_the_values_that_it_has(spec: SearchSpec) -> None:
    found = after(search(spec, 3), {1: (90.0, 91.0, 92.0), 2: (50.0, 51.5)})
    assert found.as_dict()["candidates"] == [
        {"trial": 1, "state": "chosen", "values": [90.0, 91.0, 92.0]},
        {"trial": 2, "state": "eliminated after 2", "values": [50.0, 51.5]},
    ]


def test_the_means_of_a_candidate_are_over_its_complete_runs(spec: SearchSpec) -> None:
    spec = search(spec, 2, objectives=(Objective(metric="val/final_accuracy", direction="maximize"),))
    again = ReevaluationSpec.of(spec)
    failed = make_trial(again.number(1, 1), value=99.0, status="failed")
    found = reevaluation_of(again, TRIALS, [make_trial(again.number(1, 0), value=70.0), failed])
    assert found.means(1) == {VALIDATION.final_accuracy: 70.0} and [each.value for each in found.runs_of(1)] == [70.0]
    assert [each["objectives"] for each in found.as_dict()["candidates"]] == [found.means(1), found.means(2)]
    fewer = after(spec, {1: (70.0, 72.0, 99.0), 2: (60.0, 61.0, 99.0)})  # the search once asked for three rounds
    assert fewer.seeds == (1, 2) and fewer.means(1) == {VALIDATION.final_accuracy: 71.0}


@pytest.mark.parametrize(
    ("metric", "unit", "difference"),
    [(None, "%", "points"), ("val/pooled_accuracy", "%", "points"), ("seconds", "s", "s")],
)
def test_a_difference_of_accuracies_is_in_points(
    spec: SearchSpec, metric: str | None, unit: str, difference: str
) -> None:
    aims = () if metric is None else (Objective(metric=metric, direction="maximize"),)
    found = after(search(spec, 1, objectives=aims), {})
    assert (found.unit, found.difference) == (unit, difference)


def test_equal_leads_are_not_certain_where_one_image_is_half_a_point(spec: SearchSpec) -> None:
    spec = search(spec, 3)
    assert after(spec, {1: (92.0, 93.0), 2: (91.0, 92.0)}).race.eliminated == {}
    found = after(spec, {1: (92.0, 92.0, 92.0), 2: (91.0, 91.0, 91.0)}).verdict
    assert found is not None and (found.error, found.ahead_error) == (
        pytest.approx((0.125 / 3) ** 0.5),
        pytest.approx((2 * 0.125 / 3) ** 0.5),
    )


class TestGain:
    """The start is trial 0, with 80 percent in the search."""

    def test_a_start_without_fresh_runs_is_compared_in_the_search(self, spec: SearchSpec) -> None:
        asked = search(spec, 2, best=1)
        found = after(asked, {1: (70.0, 72.0)})
        assert found.verdict is not None
        assert str(gain_of(asked, TRIALS, TRIALS[1], found)) == "+15.00 points"

    def test_a_race_that_is_not_over_says_nothing(self, spec: SearchSpec) -> None:
        asked = search(spec, 2, reevaluate=Reevaluate(best=1, runs=2, start=True))
        found = after(asked, {1: (70.0,), 0: (75.0,)})
        assert found.verdict is None
        assert str(gain_of(asked, TRIALS, TRIALS[1], found)) == "+15.00 points"

    def test_one_image_counts_although_an_extended_search_asks_for_more(self, spec: SearchSpec) -> None:
        extended = search(spec, 1, stop=StopRule(patience=1, since=3, least_gain=20.0))
        assert str(gain_of(extended, TRIALS, TRIALS[1], None)) == "+15.00 points"

    def test_a_start_that_failed_and_ran_again_is_compared_with_its_value(self, spec: SearchSpec) -> None:
        failed = make_trial(0, tasks=1, status="failed")
        again = replace(make_trial(3, value=85.0), hyperparameters=failed.hyperparameters)
        assert str(gain_of(search(spec, 1), [failed, TRIALS[1], again], TRIALS[1], None)) == "+10.00 points"

    def test_a_gain_in_an_objective_has_its_unit(self, spec: SearchSpec) -> None:
        asked = search(spec, 1, objectives=(Objective(metric="seconds", direction="minimize"),))
        found = gain_of(asked, TRIALS, TRIALS[1], None)
        assert found is not None and (found.unit, found.points) == ("s", 0.0) and found.model_dump()["unit"] == "s"

    def test_less_than_one_image_is_no_gain_and_one_over_fresh_runs_says_so(self, spec: SearchSpec) -> None:
        trials = [TRIALS[0], make_trial(1, value=80.3)]
        few = "+0.30 points, at most one validation image: no better than the start"
        assert str(gain_of(search(spec, 1), trials, trials[1], None)) == few
        less = make_trial(1, value=79.7)
        assert str(gain_of(search(spec, 1), trials, less, None)) == "-0.30 points: no better than the start"
        found = after(search(spec, 1), {1: (90.0,), 0: (80.0,)}, trials)
        assert str(gain_of(search(spec, 1), trials, trials[1], found)) == "+10.00 points over the start's fresh runs"

    def test_a_start_that_was_eliminated_is_compared_over_the_runs_that_it_has(self, spec: SearchSpec) -> None:
        found = after(search(spec, 3), {1: (95.0, 96.0, 97.0), 0: (50.0, 51.5)}, TRIALS[:2])
        assert found.race.alive == (1,)
        gain = gain_of(search(spec, 3), TRIALS, TRIALS[1], found)
        assert gain is not None and gain.fresh and gain.points == pytest.approx(95.5 - 50.75)

    def test_a_start_that_breaks_the_bounds_is_one_all_the_same_and_a_search_may_have_none(
        self, spec: SearchSpec
    ) -> None:
        bound = Constraint(metric="val/final_accuracy", relation=">=", bound=85.0)
        assert str(gain_of(search(spec, 1, constraints=(bound,)), TRIALS, TRIALS[1], None)) == "+15.00 points"
        assert gain_of(search(spec, 1, start={}), TRIALS, TRIALS[1], None) is None
