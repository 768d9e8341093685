"""Replays: the record answers in the place of training, and what would be trained is counted."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from search_spaces.schema import Choices, Range
from tausearch.cli.output import show_replays
from tausearch.runs import Constraint, Record, Score, SearchSpec, Storage, TrialSummary, open_storage
from tausearch.runs.creation import make_run_directory
from tausearch.studies import RecordedTrials, points_to_evaluate, replay, replays_of
from tausearch.studies.grid import grid_points
from tausearch.studies.recorded.replays import Replay, ReplayedSetting
from tausearch.studies.recorded.trials import distance
from tausearch.studies.study import SearchStudy
from tests.support.command_line import Ask
from tests.support.runs.trials import FIXED, final_spec, make_trial
from tests.tausearch.several.made import part, several_search
from tests.tausearch.studies.test_objectives import aiming
from trainables.errors import InputError

TASKS = 6
AVERAGE, FINAL = "val/average_accuracy", "val/final_accuracy"


@pytest.fixture
def long_spec(spec: SearchSpec) -> SearchSpec:
    protocol = spec.protocol.model_copy(update={"tasks": TASKS})
    return spec.model_copy(update={"steps": TASKS, "protocol": protocol, "trials": 15})


def accuracy(point: dict[str, float]) -> float:
    """Best at alpha = 2 and lr = 0.05, on the logarithmic scale of the space."""
    return 90 - 10 * abs(math.log(point["alpha"] / 2)) - 10 * abs(math.log(point["lr"] / 0.05))


def trial(number: int, accuracies: list[float], status: str = "complete", **point: float) -> TrialSummary:
    made = make_trial(number, tasks=len(accuracies), status=status, hyperparameters={**point, **FIXED})
    for row, value in zip(made.rows, accuracies, strict=True):
        row[AVERAGE] = value
    if status == "complete":
        made.value = made.rows[-1][FINAL] = accuracies[-1]
    return made


def recorded(spec: SearchSpec, count: int = 60) -> list[TrialSummary]:
    """The start and random configurations; accuracy falls by one with every task."""
    draws = random.Random(0)
    points = [{"alpha": 1.0, "lr": 0.01}]
    points += [{"alpha": 10 ** draws.uniform(-1, 1), "lr": 10 ** draws.uniform(-3, -1)} for _ in range(count - 1)]
    return [
        trial(number, [accuracy(point) + TASKS - task for task in range(1, TASKS + 1)], **point)
        for number, point in enumerate(points)
    ]


def with_(spec: SearchSpec, **changes: Any) -> SearchSpec:
    return spec.model_copy(update=changes)


def outcome(*chosen: TrialSummary | None) -> ReplayedSetting:
    replays = tuple(Replay(seed=0, tried=(), ends=(), chosen=each, distance=0.0) for each in chosen)
    return ReplayedSetting("tpe", "none", replays)


def test_an_outcome_has_an_accuracy_only_if_every_seed_finished_a_trial() -> None:
    one, other = make_trial(0, value=70.0), make_trial(1, value=80.0)
    assert outcome(one, other).accuracy == Score(75.0, pytest.approx(50**0.5), 2)
    assert outcome(one, None).accuracy is None and outcome(one, None, one, other).found(one) == 2
    assert outcome(make_trial(2, value=70.0)).found(one) == 0, "as accurate, but another"
    assert outcome(None).replays[0].as_dict()["chosen"] is None


class TestDistance:
    space = {
        "log": Range(low=0.01, high=100, log=True, grid=(1,)),
        "linear": Range(low=-1, high=3, grid=(1,)),
        "kind": Choices(choices=("a", "b")),
    }

    @pytest.mark.parametrize(
        ("other", "expected"),
        [
            ({}, 0),
            ({"log": 100.0}, 0.5),
            ({"linear": 3.0}, 0.5),
            ({"kind": "b"}, 1),
            ({"log": 100.0, "linear": 3.0, "kind": "b"}, math.sqrt(1.5)),
        ],
    )
    def test_it_counts_shares_of_the_ranges(self, other: dict[str, Any], expected: float) -> None:
        one = {"log": 1.0, "linear": 1.0, "kind": "a"}
        assert distance(self.space, one, {**one, **other}) == pytest.approx(expected / math.sqrt(3))  # type: ignore[arg-type]

    def test_whole_numbers_have_the_scale_of_their_range_too(self) -> None:
        whole = {"n": Range(low=1, high=100, log=True, integer=True, grid=(1,))}
        assert distance(whole, {"n": 1}, {"n": 10}) == pytest.approx(0.5)

    def test_the_nearest_is_the_earliest_of_equals_that_is_not_used(self, spec: SearchSpec) -> None:
        table = RecordedTrials([trial(n, [1.0], alpha=a, lr=0.01) for n, a in enumerate((9, 2, 1, 2))], spec.space)
        found = [table.nearest({"alpha": 2.1, "lr": 0.01}, used)[0].number for used in ((), (1,), (1, 3), (1, 2, 3))]
        assert found == [1, 3, 2, 0] and table.point(table.trials[0]) == {"alpha": 9, "lr": 0.01}


@pytest.mark.parametrize("algorithm", ["tpe", "gp", "random", "grid"])
def test_a_replay_repeats_itself_begins_at_the_start_and_tries_nothing_twice(
    long_spec: SearchSpec, algorithm: str
) -> None:
    spec = with_(long_spec, algorithm=algorithm, trials=6)
    table = RecordedTrials(recorded(spec), spec.space)
    first, second = replay(spec, table), replay(spec, table)
    assert first == second and first.tried[0] == 0 and len(set(first.tried)) == 6
    assert first.tasks == 6 * TASKS and first.stopped == 0
    assert first.chosen is max((table.trials[n] for n in first.tried), key=lambda t: t.value or 0)
    if algorithm in ("tpe", "random"):
        assert replay(with_(spec, seed=1), table).tried != first.tried


@pytest.fixture
def studies(monkeypatch: pytest.MonkeyPatch) -> list[SearchStudy]:
    """The studies that replays made."""
    made: list[SearchStudy] = []
    initialise = SearchStudy.__init__
    monkeypatch.setattr(SearchStudy, "__init__", lambda self, *a: (made.append(self), initialise(self, *a))[1])
    return made


def test_a_trial_that_a_replay_stops_breaks_constraints_only_as_far_as_it_came(
    long_spec: SearchSpec, studies: list[SearchStudy]
) -> None:
    bound = Constraint(metric=AVERAGE, relation=">=", bound=75)
    spec = with_(long_spec, trials=2, scheduler="asha", constraints=(bound,))
    better, worse = [90.0, 90.0, 80.0, 80.0, 80.0, 80.0], [90.0, 90.0, 70.0, 60.0, 50.0, 10.0]
    trials = [trial(n, values, alpha=1.0 + n, lr=0.01) for n, values in enumerate((better, worse))]
    assert replay(spec, RecordedTrials(trials, spec.space)).stopped == 1
    told = [each.constraints for each in studies[0].optuna.trials if each.state.name != "FAIL"]
    assert told == [{str(bound): -5.0}, {str(bound): 5.0}]


def test_the_algorithm_is_told_what_was_recorded(long_spec: SearchSpec, studies: list[SearchStudy]) -> None:
    table = RecordedTrials(recorded(long_spec), long_spec.space)
    found = replay(long_spec, table)
    told = [each for each in studies[0].optuna.trials if each.state.name != "FAIL"]
    assert [each.params for each in told] == [table.point(table.trials[n]) for n in found.tried]
    assert [each.value for each in told] == [table.trials[n].value for n in found.tried]


def test_a_replay_of_everything_chooses_the_best_at_the_full_price(long_spec: SearchSpec) -> None:
    table = RecordedTrials(recorded(long_spec, 15), long_spec.space)
    found = replay(long_spec, table)
    assert found.chosen is table.best and found.tasks == 15 * TASKS and sorted(found.tried) == [*range(15)]
    assert 0 < found.distance < 1


def test_the_distance_of_a_replay_is_the_median_of_its_points(long_spec: SearchSpec) -> None:
    spec = with_(long_spec, algorithm="grid", trials=3)
    first, second, _ = points_to_evaluate(spec)[:3]
    points = [first, second, {"alpha": 10.0, "lr": 0.1}]
    table = RecordedTrials([trial(n, [50.0] * TASKS, **p) for n, p in enumerate(points)], spec.space)  # type: ignore[arg-type]
    assert replay(spec, table).distance == 0


def test_a_replay_chooses_the_best_that_keeps_the_constraints_and_forgets_least(long_spec: SearchSpec) -> None:
    kept = Constraint(metric="val/forgetting", relation="<=", bound=5)
    trials = [trial(n, [value] * TASKS, alpha=1.0 + n, lr=0.01) for n, value in enumerate((80.0, 90.0, 80.0))]
    for each, forgetting in zip(trials, (3.0, 9.0, 2.0), strict=True):
        each.rows[-1]["val/forgetting"] = forgetting
    spec = with_(long_spec, trials=3, constraints=(kept,))
    table = RecordedTrials(trials, spec.space, spec.aim)
    found = replay(spec, table)
    assert found.chosen is table.best is trials[2] and table.regret(80.0) == 0, "no replay may choose the other"
    assert RecordedTrials(trials[1:2], spec.space, spec.aim).best is trials[1], "none keeps the bound"
    least = aiming(
        spec, "final_accuracy", "forgetting", prefer="forgetting", constraints=(kept.model_copy(update={"bound": 1.0}),)
    )
    assert RecordedTrials(trials[:2], spec.space, least.aim).best is trials[0], "its objectives stay"
    assert RecordedTrials(trials, spec.space).best is trials[1]
    knee = aiming(long_spec, "final_accuracy", "forgetting").aim
    assert RecordedTrials(trials, spec.space, knee).value(trials[1]) == -1, "an end of the front"


def test_a_grid_asks_for_its_points(long_spec: SearchSpec) -> None:
    spec = with_(long_spec, algorithm="grid", trials=6)
    points = [{**point} for point in grid_points(spec.space)]
    table = RecordedTrials([trial(n, [50.0] * TASKS, **p) for n, p in enumerate(points)], spec.space)  # type: ignore[arg-type]
    found = replay(spec, table)
    start = points.index(spec.start)
    assert found.tried == (start, *(n for n in range(6) if n != start)) and found.distance == 0


def test_asha_stops_what_it_would_have_stopped_and_the_price_falls(long_spec: SearchSpec) -> None:
    """The same values as a search under way has in `test_asha_has_half_of_them_go_on`."""
    spec = with_(long_spec, scheduler="asha", algorithm="grid", trials=5)
    order = (2, 0, 4, 1, 3)  # number in the record of each point in turn
    asked = dict(zip(order, points_to_evaluate(spec), strict=False))
    points = [asked[n] for n in range(5)]
    after_third = dict(zip(order, (90.0, 80.0, 70.0, 85.0, 71.0), strict=True))
    trials = [
        trial(n, [99.0, 99.0, after_third[n], 60.0, 60.0, 60.0 + n], **point)  # type: ignore[arg-type]
        for n, point in enumerate(points)
    ]
    found = replay(spec, RecordedTrials(trials, spec.space))
    assert found.tried == order and found.stopped == 3 and found.tasks == 6 + 3 + 3 + 6 + 3
    assert found.chosen is not None and found.chosen.number == max(order[0], order[3])


def test_what_the_recorded_search_did_not_finish_ends_as_it_did_there(long_spec: SearchSpec) -> None:
    trials = [
        trial(0, [99.0] * TASKS, alpha=1.0, lr=0.01),
        trial(1, [98.0] * 4, "pruned", alpha=2.0, lr=0.01),
        trial(2, [97.0], "diverged", alpha=3.0, lr=0.01),
        trial(3, [96.0], "failed", alpha=4.0, lr=0.01),
        trial(4, [95.0] * 2, "running", alpha=5.0, lr=0.01),
    ]
    table = RecordedTrials(trials, long_spec.space)
    assert [each.number for each in table.trials] == [0, 1, 2] and table.left_out == 2
    found = replay(with_(long_spec, trials=3), table)
    assert (found.stopped, found.tasks) == (1, 6 + 4 + 2) and found.chosen is trials[0]


def test_no_scheduler_is_asked_after_the_last_task_or_where_a_trial_diverged(long_spec: SearchSpec) -> None:
    spec = with_(long_spec, trials=2, scheduler="asha")
    first = trial(0, [90.0, 90.0, 80.0, 80.0, 80.0, 80.0], alpha=1.0, lr=0.01)
    better_then_worse = trial(1, [90.0, 90.0, 85.0, 80.0, 80.0, 10.0], alpha=2.0, lr=0.01)
    found = replay(spec, RecordedTrials([first, better_then_worse], spec.space))
    assert (found.stopped, found.tasks) == (0, 2 * TASKS)
    median = with_(long_spec, trials=6, scheduler="median")
    others = [trial(n, [90.0] * TASKS, alpha=1.0 + n, lr=0.01) for n in range(5)]
    diverged = trial(5, [90.0] * 3, "diverged", alpha=9.9, lr=0.1)
    assert replay(median, RecordedTrials([*others, diverged], spec.space)).stopped == 0


@pytest.fixture
def storage(long_spec: SearchSpec, tmp_path: Path) -> Storage:
    root = open_storage(tmp_path / "runs", write=True)
    for name, trials in (("s", recorded(long_spec, 20)), ("few", recorded(long_spec, 3))):
        spec, directory = make_run_directory(with_(long_spec, name=name), root)
        for each in trials:
            Record(directory.record, tasks=TASKS).write(each)
    never = Constraint(metric="val/final_accuracy", relation=">=", bound=99.9)
    spec, directory = make_run_directory(with_(long_spec, name="none", constraints=(never,)), root)
    for each in recorded(long_spec, 4):
        Record(directory.record, tasks=TASKS).write(each)
    make_run_directory(final_spec(long_spec, name="final"), root)
    make_run_directory(with_(long_spec, name="fixed", space={}, start={}), root)
    return root


def test_every_pair_that_goes_together_is_replayed(storage: Storage) -> None:
    found = replays_of(storage, "s", seeds=(0, 1))
    pairs = [(each.algorithm, each.scheduler) for each in found.outcomes]
    schedulers = ("none", "asha", "median")
    assert pairs == [("tpe", s) for s in schedulers] + [("gp", "none")] + [("random", s) for s in schedulers]
    assert found.trials == 10 and all(len(each.replays) == 2 for each in found.outcomes) and not found.left_out
    tasks = {pair: each.tasks.mean for pair, each in zip(pairs, found.outcomes, strict=True)}
    assert tasks["random", "asha"] < tasks["random", "none"] == 10 * TASKS
    only = replays_of(storage, "s", scheduler="asha", seeds=(0,))
    assert [(each.algorithm, each.scheduler) for each in only.outcomes] == [("tpe", "asha"), ("random", "asha")]
    assert replays_of(storage, "s", algorithm="grid", scheduler="none", seeds=(0,)).trials == 6  # all of its points


def test_options_of_a_sampler_and_of_a_pruner_are_for_those_alone(
    storage: Storage, long_spec: SearchSpec, studies: list[SearchStudy]
) -> None:
    options = {"sampler_options": {"n_startup_trials": 4}, "pruner_options": {"reduction_factor": 3}}
    spec, directory = make_run_directory(
        with_(long_spec, name="o", algorithm="tpe", scheduler="asha", **options), storage
    )
    for each in recorded(long_spec, 6):
        Record(directory.record, tasks=TASKS).write(each)
    assert len(replays_of(storage, "o", seeds=(0,)).outcomes) == len(studies) == 7
    for asked in (study.spec for study in studies):
        assert asked.sampler_options == (spec.sampler_options if asked.algorithm == "tpe" else {})
        assert asked.pruner_options == (spec.pruner_options if asked.scheduler == "asha" else {})
    with_(spec, pruner_options={"min_resource": TASKS}).save(directory)
    with pytest.raises(InputError, match=f"--scheduler asha: stops no trial before task {TASKS}"):
        replays_of(storage, "o", scheduler="asha")
    late = {"asha": f"stops no trial before task {TASKS}, and a trial has {TASKS}"}
    assert replays_of(storage, "o", algorithm="random", seeds=(0,)).left_out == late


def test_a_search_with_an_objective_is_replayed_by_it_and_without_schedulers(
    storage: Storage, long_spec: SearchSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, directory = make_run_directory(aiming(with_(long_spec, name="aims"), "forgetting"), storage)
    for each in recorded(long_spec, 6):
        each.rows[-1]["val/forgetting"] = 7.0 - each.number
        Record(directory.record, tasks=TASKS).write(each)
    found = replays_of(storage, "aims", algorithm="random", trials=6, seeds=(0,))
    assert [each.scheduler for each in found.outcomes] == ["none"] and found.recorded.best.number == 5
    plain = found.as_dict()["outcomes"][0]
    assert (plain["accuracy"]["mean"], plain["regret"], plain["found_best"]) == (2.0, 0.0, 1)
    show_replays(found)
    said = capsys.readouterr().out
    assert " chosen, val/forgetting ┃" in said
    assert "\nwithout: asha (compares accuracies alone), median (compares accuracies alone)\n" in said
    assert found.as_dict()["schedulers_left_out"].keys() == {"asha", "median"}
    with pytest.raises(InputError, match="--scheduler asha: stops trials by accuracy"):
        replays_of(storage, "aims", algorithm="random", scheduler="asha", seeds=(0,))


def test_a_search_on_two_benchmarks_is_replayed_with_all_schedulers(tmp_path: Path) -> None:
    spec, root, directory = several_search(tmp_path)
    for number in range(4):
        for place in range(2):
            Record(directory.record).write(part(spec, number, place, 80.0 + number))
    found = replays_of(root, spec.name, algorithm="random", trials=2, seeds=(0,))
    assert [each.scheduler for each in found.outcomes] == ["none", "asha", "median"]


def test_by_default_half_of_the_trials_are_replayed_with_five_seeds(
    storage: Storage, long_spec: SearchSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, directory = make_run_directory(with_(long_spec, name="five"), storage)
    for number, each in enumerate(recorded(long_spec, 6)):
        if number == 1:
            each = replace(each, status="pruned", value=None, rows=each.rows[:2])
        Record(directory.record, tasks=TASKS).write(replace(each, status="failed" if number == 5 else each.status))
    found = replays_of(storage, "five", algorithm="random", scheduler="none")
    plain = found.as_dict()["recorded"]
    assert [plain[name] for name in ("trials", "left_out", "tasks")] == [5, 1, 4 * TASKS + 2]
    assert found.trials == 3 and [each.seed for each in found.outcomes[0].replays] == [0, 1, 2, 3, 4]
    show_replays(found)
    assert "\nleft out, because their end is unknown: 1\n" in capsys.readouterr().out
    Record(directory.record, tasks=TASKS).write(replace(recorded(long_spec, 6)[4], status="pruned", value=None))
    with pytest.raises(InputError, match="has 3 finished trials; a replay needs at least 4"):
        replays_of(storage, "five")


def test_the_table_has_means_over_the_seeds(storage: Storage, capsys: pytest.CaptureFixture[str]) -> None:
    found = replays_of(storage, "s", algorithm="random", trials=4, seeds=(0, 1, 2))
    show_replays(found)
    shown = [line.strip("│").split("│") for line in capsys.readouterr().out.splitlines() if line.startswith("│ random")]
    best = found.recorded.best.value
    for row, plain in zip(shown, found.as_dict()["outcomes"], strict=True):
        columns = {of: [each[of] for each in plain["replays"]] for of in ("value", "tasks", "stopped", "distance")}
        value, tasks, stopped, distance = map(statistics.fmean, columns.values())
        assert best is not None and plain["regret"] == pytest.approx(best - value) != 0
        chosen = [f"{best - value:.2f}", f"{columns['value'].count(best)} of 3"]
        assert [cell.strip() for cell in row[3:]] == [*chosen, f"{tasks:.0f}", f"{stopped:.1f}", f"{distance:.2f}"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "no run named 'nope'"),
        (["final"], "run 'final': nothing was searched in it"),
        (["fixed"], "run 'fixed': nothing was searched in it"),
        (["few"], "run 'few': has 3 finished trials; a replay needs at least 4"),
        (["s", "--algorithm", "tree"], "unknown algorithm 'tree'; allowed: tpe, gp, random, grid"),
        (["s", "--scheduler", "hyper"], "unknown scheduler 'hyper'; allowed: none, asha, median"),
        (["s", "--algorithm", "gp", "--scheduler", "asha"], "gp learns nothing from trials that were stopped"),
        (["none"], "run 'none': nothing was chosen in it: "),
        (["s", "--trials", "21"], "--trials must be from 1 to 20, the number of recorded trials, got 21"),
        (["s", "--trials", "7", "--algorithm", "grid"], "--trials 7: the grid has 6 points"),
        (["s", "--trials", "0"], "--trials must be from 1 to 20"),
        (["s", "--seeds", "0,0"], "--seeds must be 1 to 1000 different numbers, got [0, 0]"),
        (["s", "--seeds", "x"], "--seeds must be whole numbers with commas between them, got 'x'"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, storage: Storage, ask: Ask) -> None:
    code, out, err = ask("runs", "replay", *arguments, "--storage", str(storage.root))
    assert code == 2 and out == "" and len(err.strip().splitlines()) == 1 and message in err
