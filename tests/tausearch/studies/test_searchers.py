"""What to try next, who competes for best, and what Optuna is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import optuna
import pytest

from search_spaces.schema import Choices, Range
from tausearch.execution import dispatcher as dispatcher_module
from tausearch.execution.tune_adapters import TuneScheduler, TuneSearcher
from tausearch.runs import (
    ALGORITHMS,
    Constraint,
    DataFacts,
    Reevaluate,
    ReevaluationSpec,
    Resources,
    SearchSpec,
    StopRule,
    TrialSummary,
    TrialTable,
    chosen_trial,
    gain_of,
    reevaluation_of,
)
from tausearch.studies import FixedSearcher, OptunaSearcher, ReevaluationSearcher
from tausearch.studies.algorithms import SEARCH_ALGORITHMS
from tausearch.studies.grid import grid_points
from tausearch.studies.study import SearchStudy
from tests.support.runs.trials import dispatcher_of, make_trial
from trainables.metrics import VALIDATION

FINAL, AVERAGE = VALIDATION.final_accuracy, VALIDATION.average_accuracy


def with_(spec: SearchSpec, **changes: object) -> SearchSpec:
    return spec.model_copy(update=changes)


def play(spec: SearchSpec, source: OptunaSearcher) -> list[dict[str, object]]:
    """Run a search one trial at a time; alpha near 2 and lr near 0.05 are best."""
    points = []
    while (suggestion := source.next()) is not None:
        number, point = suggestion
        points.append(dict(point))
        value = 100 - 10 * abs(float(point["alpha"]) - 2) - 500 * abs(float(point["lr"]) - 0.05)
        source.report(number, 1, value)
        source.finish(number, "complete", value)
    return points


def recorded(points: list[dict[str, Any]], straight: OptunaSearcher, count: int) -> list[TrialSummary]:
    """The first trials of a search that was played."""
    values = [trial.value for trial in straight.study.optuna.trials]
    history = [make_trial(n, value=values[n], hyperparameters=points[n]) for n in range(count)]
    for number, trial in enumerate(history):
        trial.rows = [{"task": 1.0, AVERAGE: values[number]}]
    return history


MODELLED = [("tpe", 15), ("gp", 11), ("random", 15)]  # a Gaussian process takes longest; all model from trial 6 on


@pytest.mark.parametrize(("algorithm", "trials"), MODELLED)
def test_same_seed_same_points_and_the_start_first(spec: SearchSpec, algorithm: str, trials: int) -> None:
    spec = with_(spec, algorithm=algorithm, trials=trials)
    first, second = (play(spec, OptunaSearcher(spec)) for _ in range(2))
    assert first == second and len(first) == trials
    assert first[0] == spec.start
    assert play(with_(spec, seed=1), OptunaSearcher(with_(spec, seed=1)))[1:] != first[1:]
    assert all(value in spec.space[name] for point in first for name, value in point.items())


@pytest.mark.parametrize(("algorithm", "trials"), MODELLED)
def test_a_search_that_was_killed_tries_what_it_would_have_tried(spec: SearchSpec, algorithm: str, trials: int) -> None:
    spec = with_(spec, algorithm=algorithm, trials=trials)
    straight = OptunaSearcher(spec)
    points = play(spec, straight)
    history = recorded(points, straight, 9)
    history[8] = make_trial(8, tasks=0, hyperparameters=points[8])  # it was running
    assert play(spec, OptunaSearcher(spec, history)) == points[8:]


def test_a_slow_trial_keeps_its_place_among_those_that_ended_before_it(spec: SearchSpec) -> None:
    """TPE's weights of trials depend on their order, from the 25th on."""
    spec = with_(spec, algorithm="tpe", trials=70)
    straight = OptunaSearcher(spec)
    asked = [straight.next() for _ in range(40)]
    points = [point for _, point in filter(None, asked)]
    values = [90.0 - number * 7 % 30 for number in range(40)]
    for number in (n for n in range(40) if n != 3):
        straight.finish(number, "complete", values[number])
    history = [make_trial(n, tasks=1, hyperparameters=points[n], value=values[n]) for n in range(40)]
    history[3] = make_trial(3, tasks=0, hyperparameters=points[3])
    continued = OptunaSearcher(spec, history)
    assert continued.next() == (3, points[3])
    for searcher in (straight, continued):
        searcher.finish(3, "complete", values[3])
    assert [continued.next() for _ in range(30)] == [straight.next() for _ in range(30)]


def test_grid_tries_the_start_and_then_every_other_point_in_order(spec: SearchSpec) -> None:
    spec = with_(spec, algorithm="grid", trials=6)
    points, every = play(spec, OptunaSearcher(spec)), grid_points(spec.space)
    assert points == [spec.start, *(point for point in every if point != spec.start)] and spec.start in every[1:]
    assert len({tuple(point.values()) for point in points}) == 6
    elsewhere = with_(spec, start={"alpha": 0.7, "lr": 0.03})
    assert play(elsewhere, OptunaSearcher(elsewhere)) == every


def test_what_was_begun_goes_on_in_order_where_the_search_is_cut_short(spec: SearchSpec) -> None:
    spec = with_(spec, trials=6, stop=StopRule(target=60.0))
    history = [make_trial(0, tasks=1), make_trial(1, tasks=0), make_trial(2, value=70.0)]
    source = OptunaSearcher(spec, history, TrialTable(history))
    assert [found[0] for found in iter(source.next, None)] == [0, 1]


def test_a_search_looks_at_the_table_of_its_driver_which_is_empty_at_first(spec: SearchSpec) -> None:
    table = TrialTable()
    source = OptunaSearcher(with_(spec, trials=6, stop=StopRule(target=60.0)), trials=table)
    assert source.next() is not None
    table.put(make_trial(0, value=70.0))
    source.finish(0, "complete", 70.0)
    assert source.next() is None


@pytest.mark.parametrize(("recorded", "wanted"), [((0, 1, 2, 4, 5), [3]), ((0, 5), [1, 2, 3, 4])])
def test_lost_trials_alone_are_run_again_where_a_later_one_reached_the_target(
    spec: SearchSpec, recorded: tuple[int, ...], wanted: list[int]
) -> None:
    history = [make_trial(number, value=95.0 if number == 5 else 70.0) for number in recorded]
    source = OptunaSearcher(with_(spec, trials=12, stop=StopRule(target=90.0)), history, TrialTable(history))
    assert [found[0] for found in iter(source.next, None)] == wanted  # before the process of any of them has started


def test_a_trial_that_waits_for_its_process_does_not_keep_a_search_from_ending_at_its_target(spec: SearchSpec) -> None:
    source = OptunaSearcher(with_(spec, trials=12, stop=StopRule(target=90.0)), trials=(table := TrialTable()))
    assert all(source.next() for _ in range(4))
    for number in (0, 1, 3):  # a free process goes to a later trial
        table.put(make_trial(number, value=95.0 if number == 3 else 70.0))
    assert source.next() is None


@pytest.mark.parametrize("status", ["diverged", "failed", "pruned"])
def test_a_start_that_did_not_finish_is_not_tried_again(spec: SearchSpec, status: Any) -> None:
    history = [make_trial(0, tasks=1, status=status)]
    assert all(history[0].hyperparameters[name] == value for name, value in spec.start.items())
    found = OptunaSearcher(spec, history).next()
    assert found is not None and found[0] == 1 and found[1] != spec.start


def test_a_trial_stopped_early_never_wins(spec: SearchSpec) -> None:
    source = OptunaSearcher(spec)
    dispatcher = dispatcher_of(spec, source)
    searcher = TuneSearcher(dispatcher)
    for trial_id in ("early", "whole", "diverged"):
        assert searcher.suggest(trial_id)
    searcher.on_trial_complete("early", {"task": 1, AVERAGE: 99.0})
    trial = SimpleNamespace(config={"run": spec.name, "trial": 1})
    assert TuneScheduler(dispatcher).on_trial_result(None, trial, {"task": 1, AVERAGE: 80.0}) == "CONTINUE"
    searcher.on_trial_complete("whole", {"task": 3, AVERAGE: 60.0, FINAL: 60.0})
    searcher.on_trial_complete("diverged", {"task": 2, AVERAGE: 0.0, "diverged": "loss is not finite"})
    assert source.study.optuna.best_trial.number == 1
    states = [trial.state.name for trial in source.study.optuna.trials]
    assert states == ["PRUNED", "COMPLETE", "PRUNED"]
    assert source.study.optuna.trials[2].intermediate_values == {2: 0.0}
    assert searcher.suggest("broken")
    searcher.on_trial_complete("broken", {"task": 3, AVERAGE: 70.0, FINAL: 70.0}, error=True)
    last = source.study.optuna.trials[3]
    assert (last.state.name, last.intermediate_values) == ("FAIL", {}) and source.study.optuna.best_trial.number == 1


def test_fixed_source_hands_out_its_trials() -> None:
    source = FixedSearcher([(0, {}), (1, {})])
    assert [source.next(), source.next(), source.next()] == [(0, {}), (1, {}), None]
    assert source.report(0, 3, 0.0) is False  # a final run stops nothing


def test_re_evaluations_run_round_by_round_and_each_once(spec: SearchSpec) -> None:
    again = ReevaluationSpec.of(with_(spec, reevaluate=Reevaluate(best=2, runs=2)))
    trials = [make_trial(number, value=value) for number, value in enumerate((80.0, 95.0, 90.0))]
    ended, killed = make_trial(again.number(2, 0), value=91.0), make_trial(again.number(1, 0), tasks=1)
    source = ReevaluationSearcher(again, trials, TrialTable([ended, killed]))
    asked = [source.next() for _ in range(4)]
    assert [each and each[0] for each in asked] == [100, 101, 201, None]  # 200 has ended, 100 has not
    assert asked[2] is not None and asked[2][1] == trials[2].hyperparameters
    source.finish(100, "failed", None)  # so trial 1 is out, and the next best comes in
    assert source.next() is None
    source.finish(201, "complete", 90.0)
    assert reevaluation_of(again, trials, list(source.reevaluations.values())).verdict.chosen == 2


class TestContinued:
    """A source rebuilt from the record."""

    def test_numbers_that_are_missing_in_the_record_are_given_first(self, spec: SearchSpec) -> None:
        history = [make_trial(number, value=70.0) for number in (0, 2)]
        found = list(iter(OptunaSearcher(spec, history).next, None))
        assert [number for number, _ in found] == [1, 3]

    def test_a_trial_that_went_on_is_not_stopped_by_those_that_came_later(self, spec: SearchSpec) -> None:
        history = [make_trial(number, tasks=4, status="pruned") for number in range(5)]
        late = make_trial(5, tasks=3)
        late.rows[2][AVERAGE] = 1.0  # it was the first at task 3
        source = OptunaSearcher(with_tasks(spec, "median"), [*history, late])
        assert source.next() is not None and not source.report(5, 3, 1.0)
        assert source.report(5, 4, 1.0)

    def test_only_a_complete_trial_has_a_value_for_optuna(self, spec: SearchSpec) -> None:
        study = SearchStudy(spec)
        told = [study.as_optuna(make_trial(0, value=99.0, status=status)) for status in ("failed", "complete")]
        assert [(each.state.name, each.value) for each in told] == [("FAIL", None), ("COMPLETE", 99.0)]

    def test_a_point_that_is_asked_for_twice_is_tried_twice(self, spec: SearchSpec) -> None:
        study = SearchStudy(spec)
        point = {name: spec.start[name] for name in spec.space}
        for _ in range(2):
            study.enqueue(point)
        assert [study.ask(number) for number in range(2)] == [point] * 2

    @pytest.mark.parametrize("ended", [0, 1, 4])
    @pytest.mark.parametrize("algorithm", ["tpe", "gp", "random"])
    def test_it_proposes_no_point_twice(self, spec: SearchSpec, algorithm: str, ended: int) -> None:
        spec = with_(spec, algorithm=algorithm, trials=8)
        fresh = OptunaSearcher(spec)
        history = [
            make_trial(number, value=50.0 if number < ended else None, hyperparameters={**point, "lr_pre": 0.1})
            for number, point in filter(None, (fresh.next() for _ in range(4)))
        ]
        more = list(iter(OptunaSearcher(spec, history).next, None))
        assert [number for number, _ in more] == [*range(ended, 4), *range(4, 8)]
        everything = [(t.hyperparameters["alpha"], t.hyperparameters["lr"]) for t in history]
        everything += [(point["alpha"], point["lr"]) for number, point in more if number >= 4]
        assert len(set(everything)) == 8

    def test_a_grid_goes_on_where_it_was(self, spec: SearchSpec) -> None:
        spec = with_(spec, algorithm="grid", trials=6)
        points = grid_points(spec.space)
        history = [
            make_trial(0, value=50.0, hyperparameters={**points[0], "lr_pre": 0.1}),
            make_trial(1, tasks=1, hyperparameters={**points[1], "lr_pre": 0.1}),
        ]
        source = OptunaSearcher(spec, history)
        rest = [source.next() for _ in range(6)]
        assert [p for p in rest if p] == list(enumerate(points))[1:]


def with_tasks(spec: SearchSpec, scheduler: str, **changes: object) -> SearchSpec:
    protocol = spec.protocol.model_copy(update={"tasks": 6})
    return with_(spec, scheduler=scheduler, steps=6, protocol=protocol, trials=12, **changes)


def run_trial(source: OptunaSearcher, accuracies: list[float]) -> int:
    """Run the next trial through Tune's adapters as far as it may go; returns the number of tasks that it did."""
    dispatcher = dispatcher_of(source.study.spec, source)
    searcher, scheduler = TuneSearcher(dispatcher), TuneScheduler(dispatcher)
    config = searcher.suggest("id")
    assert isinstance(config, dict)
    for task, value in enumerate(accuracies, start=1):
        result = {"task": task, AVERAGE: value, **({FINAL: value} if task == len(accuracies) else {})}
        last = task == len(accuracies)
        if last or scheduler.on_trial_result(None, SimpleNamespace(config=config), result) == "STOP":
            searcher.on_trial_complete("id", result)
            return task
    raise AssertionError


class TestScheduler:
    """Stopping early: at equal numbers of tasks, never before the third, and the same after a resume."""

    def test_none_stops_nothing(self, spec: SearchSpec) -> None:
        source = OptunaSearcher(with_tasks(spec, "none"))
        assert [run_trial(source, [90, 80, 70, 60, 50, 40 - n]) for n in range(6)] == [6] * 6

    def test_asha_goes_on_with_the_better_half_at_tasks_3_and_6(self, spec: SearchSpec) -> None:
        source = OptunaSearcher(with_tasks(spec, "asha"))
        assert run_trial(source, [99, 95, 90, 80, 70, 60]) == 6
        assert run_trial(source, [10, 10, 80, 70, 60, 50]) == 3  # worse after task 3; 1 and 2 are not looked at
        assert run_trial(source, [10, 10, 95, 70, 60, 50]) == 6  # best after task 3

    def test_asha_has_half_of_them_go_on(self, spec: SearchSpec) -> None:
        source = OptunaSearcher(with_tasks(spec, "asha"))
        tasks = [run_trial(source, [99, 99, value, 60, 60, 60]) for value in (90, 80, 70, 85, 71)]
        assert tasks == [6, 3, 3, 6, 3]  # 85 is second of four, 71 is fourth of five

    def test_a_second_report_of_a_task_decides_nothing_anew(self, spec: SearchSpec) -> None:
        study = SearchStudy(with_tasks(spec, "median"))
        for number in range(6):
            study.ask(number)
        assert not study.report(0, 3, 10.0)
        for number in range(1, 6):
            study.report(number, 3, 90.0)
        assert not study.report(0, 3, 10.0)  # it was the first there, and went on

    def test_median_compares_values_after_the_same_task(self, spec: SearchSpec) -> None:
        source = OptunaSearcher(with_tasks(spec, "median"))
        for value in (80, 70, 60, 20):  # each worse than all before it
            assert run_trial(source, [99, 90, value, value, value, value]) == 6  # too few others to compare with
        assert run_trial(source, [10, 10, 65, 66, 64, 10]) == 5  # the median of the four is 65
        assert run_trial(source, [10, 10, 64, 99, 99, 99]) == 3

    @pytest.mark.parametrize("scheduler", ["asha", "median"])
    def test_decides_the_same_after_a_resume(self, spec: SearchSpec, scheduler: str) -> None:
        spec = with_tasks(spec, scheduler)
        values = [[99, 90, 50 + n, 50 + n, 45 + n, 40 + n] for n in (9, 3, 8, 1, 7, 2)]
        straight = OptunaSearcher(spec)
        done = [run_trial(straight, [float(v) for v in row]) for row in values]
        history = []
        for number, (row, tasks) in enumerate(zip(values, done, strict=True)):
            point = straight.study.optuna.trials[number].params
            trial = make_trial(number, tasks=tasks, hyperparameters={**point, "lr_pre": 0.1}, status="pruned")
            for value, metrics in zip(row, trial.rows, strict=False):
                metrics[AVERAGE] = float(value)
            if tasks == 6:
                trial.status, trial.value = "complete", float(row[-1])
            history.append(trial)
        continued = OptunaSearcher(spec, history)
        for ours, theirs in zip(continued.study.optuna.trials, straight.study.optuna.trials, strict=True):
            assert ours.state == theirs.state and ours.intermediate_values == theirs.intermediate_values
        tests = [[10.0, 10.0, v, v, v, v] for v in (51.5, 54.5, 57.5, 61.0)]
        assert [run_trial(continued, t) for t in tests] == [run_trial(straight, t) for t in tests]

    def test_an_unfinished_trial_keeps_its_place(self, spec: SearchSpec) -> None:
        spec = with_tasks(spec, "asha")
        unfinished = make_trial(0, tasks=4)  # 70 after task 3
        source = OptunaSearcher(spec, [unfinished])
        assert source.next() == (0, {"alpha": 1.0, "lr": 0.01})
        assert not source.report(0, 5, 1.0)
        assert run_trial(source, [99, 99, 60, 60, 60, 60]) == 3  # worse than the unfinished one was there

    def test_a_diverged_trial_is_the_worst_to_a_gaussian_process(self, spec: SearchSpec) -> None:
        source = OptunaSearcher(with_(spec, algorithm="gp"))
        assert source.next() is not None
        source.finish(0, "diverged", None)
        told = source.study.optuna.trials[0]
        assert told.state.name == "COMPLETE" and told.value == 0.0


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("integer", [False, True])
def test_optuna_is_told_the_space_as_it_is(spec: SearchSpec, integer: bool, log: bool) -> None:
    dimension = Range(low=2, high=64, log=log, integer=integer, grid=(4,))
    told = SearchStudy(with_(spec, space={"x": dimension, "kind": Choices(choices=("a", "b"))})).space
    kind = optuna.distributions.IntDistribution if integer else optuna.distributions.FloatDistribution
    assert told == {"x": kind(2, 64, log=log), "kind": optuna.distributions.CategoricalDistribution(("a", "b"))}


def test_samplers_model_from_the_seventh_trial_on() -> None:
    made: list[Any] = [SEARCH_ALGORITHMS[name].sampler(seed=3) for name in ALGORITHMS]
    assert [type(each).__name__ for each in made] == ["SteadyTPE", "GPSampler", "RandomSampler", "RandomSampler"]
    assert made[0]._n_startup_trials == made[1]._n_startup_trials == 6
    assert (made[0]._multivariate, made[0]._constant_liar) == (True, True)


def test_a_cluster_that_grows_is_asked_again(spec: SearchSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher_module, "CAPACITY_SECONDS", 0.0)
    room = [1]
    searcher = TuneSearcher(
        dispatcher_of(spec, OptunaSearcher(spec), capacity=lambda: (float(room[0]), 0.0), max_concurrent_trials=None)
    )

    def trial_of(trial_id: str) -> object:
        suggested = searcher.suggest(trial_id)
        return suggested["trial"] if isinstance(suggested, dict) else suggested

    assert trial_of("a") == 0 and trial_of("b") is None
    room[0] = 2
    assert trial_of("b") == 1 and trial_of("c") is None
    searcher.on_trial_complete("a", {"task": 3, AVERAGE: 50.0, FINAL: 50.0})
    assert trial_of("c") == 2


def test_as_many_run_as_share_the_gpus_that_there_are_now(spec: SearchSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher_module, "CAPACITY_SECONDS", 0.0)
    gpus = [2.0]
    many = spec.model_copy(update={"trials": 12, "algorithm": "random", "resources": Resources(gpus_per_trial=1 / 3)})
    searcher = TuneSearcher(
        dispatcher_of(many, OptunaSearcher(many), capacity=lambda: (64.0, gpus[0]), max_concurrent_trials=None)
    )

    def started(*names: str) -> list[str]:
        return [name for name in names if isinstance(searcher.suggest(name), dict)]

    def end(*names: str) -> None:
        for name in names:
            searcher.on_trial_complete(name, {"task": 3, AVERAGE: 50.0, FINAL: 50.0})

    assert started(*"abcdefg") == [*"abcdef"]
    gpus[0] = 1.0  # a node leaves; Tune starts its trials anew
    end(*"abc")
    assert started("g") == []
    end("d")
    assert started(*"gh") == ["g"]
    gpus[0] = 2.0
    assert started(*"hijk") == [*"hij"]


def test_a_trial_that_was_to_stop_is_told_so_again(spec: SearchSpec) -> None:
    study = SearchStudy(spec.model_copy(update={"scheduler": "asha", "steps": 6, "trials": 12}))
    stopped = []
    for number in range(6):
        study.ask(number)
        stopped.append(any([study.report(number, step, 90.0 - 10 * number) for step in (1, 2, 3)]))
    number = stopped.index(True)
    assert study.report(number, 3, 90.0 - 10 * number)  # its process died before Tune could stop it


class TestStart:
    """The start of a search among the candidates, and what was gained over it; the start is alpha 1, lr 0.01."""

    TRIALS = [make_trial(number, value=value) for number, value in enumerate((80.0, 95.0, 90.0))]

    def search(self, spec: SearchSpec, *, start: bool = True) -> SearchSpec:
        facts = DataFacts(digest="0", train=1000, evaluation=200)  # one image is 0.5 points
        return with_(spec, data=facts, reevaluate=Reevaluate(best=1, runs=2, start=start))

    def test_it_is_a_candidate_although_others_are_better(self, spec: SearchSpec) -> None:
        for start, candidates in ((True, (1, 0)), (False, (1,))):
            again = ReevaluationSpec.of(self.search(spec, start=start))
            assert reevaluation_of(again, self.TRIALS, []).race.candidates == candidates
            assert again.trials == 2 * len(candidates)
        bound = Constraint.parse("final_accuracy >= 85", [FINAL])  # a start that breaks a bound cannot be chosen
        again = ReevaluationSpec.of(with_(self.search(spec), constraints=(bound,)))
        assert reevaluation_of(again, self.TRIALS, []).race.candidates == (1,)

    @pytest.mark.parametrize(
        ("fresh", "said"),
        [
            ((92.0, 93.0, 88.0, 88.0), "+4.50 ± 0.50 points over the start's fresh runs"),
            (
                (90.0, 94.0, 90.0, 92.0),
                "+1.00 ± 1.00 points over the start's fresh runs, within the error: no better than the start",
            ),
            ((80.0, 80.0, 90.0, 90.0), "no better than the start, which is chosen"),
        ],
    )
    def test_the_gain_has_the_error_of_its_fresh_runs(
        self, spec: SearchSpec, fresh: tuple[float, ...], said: str
    ) -> None:
        search = self.search(spec)
        again = ReevaluationSpec.of(search)
        numbers = [again.number(candidate, round_) for candidate in (1, 0) for round_ in (0, 1)]
        runs = [make_trial(number, value=value) for number, value in zip(numbers, fresh, strict=True)]
        found = reevaluation_of(again, self.TRIALS, runs)
        assert str(gain_of(search, self.TRIALS, chosen_trial(search, self.TRIALS, found), found)) == said

    @pytest.mark.parametrize(
        ("value", "said"),
        [(80.5, "+0.50 points, at most one validation image: no better than the start"), (81.0, "+1.00 points")],
    )
    def test_without_fresh_runs_it_must_exceed_one_image(self, spec: SearchSpec, value: float, said: str) -> None:
        trials = [make_trial(0, value=80.0), make_trial(1, value=value)]
        assert str(gain_of(self.search(spec), trials, trials[1], None)) == said
        assert gain_of(self.search(spec), trials[1:], trials[1], None) is None
