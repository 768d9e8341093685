"""What to try next, who competes for best, and what Optuna is told."""

from __future__ import annotations

import optuna
import pytest

from tausearch.algorithms import FixedSource, OptunaSource, TuneSearcher, best_trial, grid_points
from tausearch.record import Status
from tausearch.spec import RunSpec
from tests.tausearch.conftest import make_trial

FINAL, AVERAGE = "val/final_accuracy", "val/average_accuracy"


def with_(spec: RunSpec, **changes: object) -> RunSpec:
    return spec.model_copy(update=changes)


def play(spec: RunSpec, source: OptunaSource) -> list[dict[str, object]]:
    """Run a search one trial at a time; alpha near 2 and lr near 0.05 are best."""
    points = []
    while (suggestion := source.next()) is not None:
        number, point = suggestion
        points.append(dict(point))
        value = 100 - 10 * abs(float(point["alpha"]) - 2) - 500 * abs(float(point["lr"]) - 0.05)
        source.report(number, 1, value)
        source.finish(number, "complete", value)
    return points


@pytest.mark.parametrize("algorithm", ["tpe", "random"])
def test_same_seed_same_points_and_the_start_first(spec: RunSpec, algorithm: str) -> None:
    spec = with_(spec, algorithm=algorithm, trials=15)
    first, second = (play(spec, OptunaSource(spec)) for _ in range(2))
    assert first == second and len(first) == 15
    assert first[0] == spec.start
    assert play(with_(spec, seed=1), OptunaSource(with_(spec, seed=1)))[1:] != first[1:]
    assert all(value in spec.space[name] for point in first for name, value in point.items())


def test_grid_tries_every_point_once_in_order(spec: RunSpec) -> None:
    spec = with_(spec, algorithm="grid", trials=6)
    points = play(spec, OptunaSource(spec))
    assert points == grid_points(spec.space)
    assert len({tuple(point.values()) for point in points}) == 6


def test_tpe_beats_random_on_an_easy_surface(spec: RunSpec) -> None:
    def best(algorithm: str) -> float:
        values = []
        for seed in range(5):
            source = OptunaSource(with_(spec, algorithm=algorithm, trials=40, seed=seed))
            play(source.spec, source)
            values.append(source.study.best_value)
        return sum(values) / len(values)

    assert best("tpe") > best("random")


@pytest.mark.parametrize(
    ("status", "state"), [("pruned", "PRUNED"), ("diverged", "PRUNED"), ("failed", "FAIL"), ("complete", "COMPLETE")]
)
def test_what_optuna_is_told(spec: RunSpec, status: Status, state: str) -> None:
    source = OptunaSource(spec)
    number, _ = source.next() or (None, None)
    assert number is not None
    source.report(number, 1, 95.0)
    source.finish(number, status, 60.0 if status == "complete" else None)
    assert source.study.trials[number].state.name == state
    assert not source.study.get_trials(states=(optuna.trial.TrialState.RUNNING,))


def test_a_trial_stopped_early_never_wins(spec: RunSpec) -> None:
    source = OptunaSource(spec)
    searcher = TuneSearcher(source, lambda number, point: {"trial": number}, AVERAGE, FINAL)
    for trial_id in ("early", "whole", "diverged"):
        assert searcher.suggest(trial_id)
    searcher.on_trial_complete("early", {"task": 1, AVERAGE: 99.0})
    searcher.on_trial_result("whole", {"task": 1, AVERAGE: 80.0})
    searcher.on_trial_complete("whole", {"task": 3, AVERAGE: 60.0, FINAL: 60.0})
    searcher.on_trial_complete("diverged", {"task": 2, AVERAGE: 0.0, "diverged": "loss is not finite"})
    assert source.study.best_trial.number == 1
    states = [trial.state.name for trial in source.study.trials]
    assert states == ["PRUNED", "COMPLETE", "PRUNED"]
    assert source.study.trials[2].intermediate_values == {2: 0.0}


def test_the_number_of_trials_is_what_was_asked_for(spec: RunSpec) -> None:
    source = OptunaSource(spec)
    numbers = [source.next() for _ in range(6)]
    assert [n is not None for n in numbers] == [True] * 4 + [False] * 2


def test_best_needs_the_last_task_and_ties_go_to_the_earlier() -> None:
    early = make_trial(0, tasks=2, status="pruned")
    assert best_trial([early]) is None
    trials = [early, make_trial(1, value=70.0), make_trial(2, value=75.0), make_trial(3, value=75.0)]
    best = best_trial(trials)
    assert best is not None and best.number == 2


def test_fixed_source_hands_out_its_trials() -> None:
    source = FixedSource([(0, {}), (1, {})])
    assert [source.next(), source.next(), source.next()] == [(0, {}), (1, {}), None]


class TestContinued:
    """A source rebuilt from the record."""

    def test_unfinished_trials_come_first_under_their_own_numbers(self, spec: RunSpec) -> None:
        history = [make_trial(0, value=70.0), make_trial(1, tasks=2), make_trial(2, tasks=1, status="pruned")]
        source = OptunaSource(spec, history)
        assert [t.state.name for t in source.study.trials[:2]] == ["COMPLETE", "PRUNED"]
        assert source.study.trials[0].intermediate_values == {1: 90.0, 2: 80.0, 3: 70.0}
        first, second, third = source.next(), source.next(), source.next()
        assert first == (1, {"alpha": 2.0, "lr": 0.01})
        assert second is not None and second[0] == 3
        assert third is None

    def test_it_proposes_no_point_twice(self, spec: RunSpec) -> None:
        spec = with_(spec, algorithm="random", trials=8)
        fresh = OptunaSource(spec)
        points = [fresh.next() for _ in range(4)]
        history = [
            make_trial(number, value=50.0, hyperparameters={**point, "lr_pre": 0.1})
            for number, point in filter(None, points)
        ]
        continued = OptunaSource(spec, history)
        more = [continued.next() for _ in range(5)]
        assert [p and p[0] for p in more] == [4, 5, 6, 7, None]
        everything = [tuple(p[1].values()) for p in [*points, *more] if p]
        assert len(set(everything)) == 8

    def test_a_grid_goes_on_where_it_was(self, spec: RunSpec) -> None:
        spec = with_(spec, algorithm="grid", trials=6)
        points = grid_points(spec.space)
        history = [
            make_trial(0, value=50.0, hyperparameters={**points[0], "lr_pre": 0.1}),
            make_trial(1, tasks=1, hyperparameters={**points[1], "lr_pre": 0.1}),
        ]
        source = OptunaSource(spec, history)
        rest = [source.next() for _ in range(6)]
        assert [p for p in rest if p] == list(enumerate(points))[1:]

    def test_diverged_trials_are_known_to_be_bad(self, spec: RunSpec) -> None:
        trial = make_trial(0, tasks=1, status="diverged", error="not finite")
        told = OptunaSource(spec, [trial]).study.trials[0]
        assert told.state.name == "PRUNED" and told.intermediate_values == {1: 90.0, 2: 0.0}
