"""What a run says of itself before it starts: where its trials come from, and what runs like it took."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.filesize import decimal

import tausearch
from tausearch.execution import SecondsPerTrial, pace_of_trials, preview_plan, preview_spec
from tausearch.presentation import clock
from tausearch.runs import (
    Constraint,
    DataFacts,
    KnownPoint,
    Objective,
    Plan,
    Record,
    Reevaluate,
    ReevaluationSpec,
    Resources,
    Retraining,
    SearchSpec,
    StopRule,
    Storage,
    open_storage,
)
from tausearch.runs.creation import make_run_directory
from tausearch.studies import OptunaSearcher
from tests.support.runs.trials import final_spec, make_trial
from tests.tausearch.several.made import several_spec
from trainables.task_names import NamedTask


@pytest.fixture(autouse=True)
def _two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tausearch.execution.concurrency.local_cpus", lambda: 2)


def previewed(spec: SearchSpec, root: Path, address: str | None = None, **changes: Any) -> tausearch.Preview:
    return preview_spec(spec.model_copy(update=changes), Storage(root), address)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trials": 12}, "1 known point first, 6 at random, 5 chosen by tpe from what it has seen by then"),
        (
            {"trials": 6, "algorithm": "gp"},
            "1 known point first, 5 at random, none chosen by gp: it learns once 6 have",
        ),
        (
            {"trials": 12, "sampler_options": {"n_startup_trials": 8}},
            "1 known point first, 8 at random, 3 chosen by tpe from",
        ),
        ({"trials": 12, "algorithm": "optuna:CmaEsSampler"}, "1 known point first, 11 chosen by optuna:CmaEsSampler\n"),
        ({"trials": 1, "algorithm": "optuna:CmaEsSampler"}, "1 known point first\n"),
        ({"trials": 9, "algorithm": "random"}, "1 known point first, 8 at random"),
        ({"trials": 4, "algorithm": "grid"}, "4 of 6 points of the grid, spread"),
        ({"trials": 6, "algorithm": "grid"}, "all 6 points of the grid"),
    ],
)
def test_it_says_where_trials_come_from(spec: SearchSpec, tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    found = previewed(spec, tmp_path, **changes)
    assert f"trials: {said}" in str(found) and "estimate: unknown, as no finished trial of ita-lora on this" in str(
        found
    )
    assert len(found.points) + found.random + found.learned == changes["trials"]
    assert ("none chosen by" in str(found)) == (changes.get("algorithm") == "gp")


def test_what_is_fixed_and_what_a_final_run_trains_with_is_said(spec: SearchSpec, tmp_path: Path) -> None:
    fixed = {"fixed": {"lr_pre": 0.12, "epochs_pre": 38}}
    assert "\nfixed: lr_pre=0.12 epochs_pre=38\n" in str(previewed(spec, tmp_path, **fixed))
    for method, after in (("ita-lora", "probe and joint"), ("joint", "probe")):  # no bound of its own
        said = str(previewed(spec, tmp_path, method=method, fixed={}, with_bounds=True))
        assert f"\nbounds: then {after}, one trial of each at the start of its space" in said
    final = preview_spec(final_spec(spec, **fixed), Storage(tmp_path), None)
    assert str(final).startswith("hyperparameters: lr_pre=0.12 epochs_pre=38\nestimate: ")


def test_what_has_no_effect_is_said_and_why(spec: SearchSpec, tmp_path: Path) -> None:
    fixed = {"regularise": "none", "alpha": 0.7, "alpha_cls": 0.1, "epochs_pre": 0, "lr_pre": 0.1, "lr": 0.1}
    said = str(previewed(spec, tmp_path, fixed=fixed))
    assert "\nno effect: lr_pre with epochs_pre=0, so not searched\n" in said
    assert "\nno effect: alpha, alpha_cls with regularise=none, so not searched\n" in said
    assert "no effect" not in str(previewed(spec, tmp_path, fixed={**fixed, "regularise": "all", "epochs_pre": 1}))


def test_what_lies_far_from_where_a_search_looks_is_said(spec: SearchSpec, tmp_path: Path) -> None:
    said = str(previewed(spec, tmp_path, fixed={"lr": 3.0, "alpha": 0.0, "alpha_cls": 2, "lr_pre": 9.0}))
    assert "\nunusual: lr=3; a search looks at a number from 3e-05 to 0.02\n" in said
    assert said.count("unusual") == 1  # 0 turns a term off, the end of a range is in it, and lr_pre is not searched


def test_on_own_images_alone_a_search_looks_less_far(spec: SearchSpec, tmp_path: Path) -> None:
    own = f"folder:{tmp_path}?epochs=1"
    said = str(previewed(spec, tmp_path, benchmark=own, fixed={"lr": 0.004}))
    assert "\nunusual: lr=0.004; a search looks at a number from 3e-05 to 0.003\n" in said
    several = several_spec(fixed={"lr": 0.004})
    parts = dict(zip((own, "digits?epochs=1"), several.parts.values(), strict=True))
    both = {"benchmark": ",".join(parts), "parts": parts, "data": None}
    assert "unusual" not in str(previewed(several, tmp_path / "both", **both))


@pytest.mark.parametrize("concurrent_trials", [1, 3])
def test_the_algorithm_learns_when_it_says_so(spec: SearchSpec, tmp_path: Path, concurrent_trials: int) -> None:
    """Played with so many at a time, the trials that are not drawn at random are those that the preview counts."""
    spec = spec.model_copy(update={"trials": 20, "resources": Resources(max_concurrent_trials=concurrent_trials)})
    found, source, guided = previewed(spec, tmp_path), OptunaSearcher(spec), 0
    running: list[int] = []
    sampler = source.study.optuna.sampler
    for _ in range(spec.trials):
        if len(running) == concurrent_trials:
            source.finish(ended := running.pop(0), "complete", 50.0 + ended)
        number = source.next()
        assert number is not None
        running.append(number[0])
        told = [each for each in source.study.optuna.trials if each.state.name == "COMPLETE"]
        guided += len(told) >= sampler._n_startup_trials
    assert found.learned == guided > 0


def test_the_points_are_those_that_the_search_tries(spec: SearchSpec, tmp_path: Path) -> None:
    spec = spec.model_copy(update={"algorithm": "grid", "trials": 4})
    assert list(previewed(spec, tmp_path).points) == [point for _, point in iter(OptunaSearcher(spec).next, None)]


def remembered(
    spec: SearchSpec, root: Path, seconds: float, prepared: tuple[float, float] | None = None, **changes: Any
) -> None:
    """Leave a run whose tasks took a third so long, after pre-consolidation: the first trial's, and the others'."""
    storage = open_storage(root, write=True)
    spec, directory = make_run_directory(spec.model_copy(update=changes), storage)
    record = Record(directory.record, {}, tasks=3, metric_names=spec.metrics)
    for number in range(spec.trials):
        trial = make_trial(number, tasks=spec.steps, value=50.0)
        more = {"seconds/training": seconds / 3, "memory/peak_gpu_bytes": 2e9 - 2e8 * number}
        if prepared is not None:
            more |= {"seconds/preconsolidation": prepared[number > 0] / 3, "cache/hit": float(number > 0)}
        rows = [{**row, **more} for row in trial.rows]
        record.write(replace(trial, rows=rows))


def test_time_is_known_from_runs_alike_and_from_no_others(spec: SearchSpec, tmp_path: Path) -> None:
    remembered(spec, tmp_path, 60.0, name="before")
    Record(Storage(tmp_path).run("before").record, {}, tasks=3).write(make_trial(3, 1, status="pruned"))
    remembered(spec, tmp_path, 999.0, name="other-method", method="ita-fft")
    remembered(spec, tmp_path, 999.0, name="other-tasks", benchmark="digits?tasks=2")
    on_other = {"protocol": spec.protocol.model_copy(update={"backbone": "vit_x"})}
    remembered(spec, tmp_path, 999.0, name="other-backbone", **on_other)
    remembered(final_spec(spec), tmp_path, 999.0, name="final")  # known, but a search says more of a search
    begun = make_run_directory(spec.model_copy(update={"name": "begun"}), Storage(tmp_path))[1]
    Record(begun.record, {}, tasks=3).write(make_trial(0, tasks=2))  # of no use without a finished trial
    found = previewed(spec, tmp_path, name="now", trials=12)
    assert found.taken.runs == ("before",) and found.taken.pace == SecondsPerTrial(pytest.approx(60))
    assert found.concurrent_trials == 2 and found.seconds == pytest.approx(360)
    assert "6:00 with 2 at a time, after Ray has started, 12:00 inside 12 trials, 2.0 GB of a GPU per trial" in str(
        found
    )
    assert previewed(spec, tmp_path, name="now", address="a:1").seconds is None  # the cluster alone knows
    assert previewed(spec, tmp_path, name="before").taken.runs == ("final",)  # a run is not its own estimate


def test_the_time_on_several_benchmarks_is_known_from_runs_on_each(spec: SearchSpec, tmp_path: Path) -> None:
    both = several_spec(trials=4, algorithm="random")

    def measured(name: str, seconds: float) -> tausearch.Preview:
        steps = both.parts[name].steps
        remembered(spec, tmp_path, seconds * 3 / steps, name=f"on-{name}", benchmark=name, steps=steps)
        return preview_spec(both, Storage(tmp_path), None)

    unknown = f"unknown, as no finished trial of {spec.method} on"
    assert f"{unknown} this benchmark and backbone lies here" in str(preview_spec(both, Storage(tmp_path), None))
    one = measured("digits", 60.0)
    assert f"{unknown} glyphs and this backbone lies here" in str(one) and one.seconds is None
    found = measured("glyphs", 30.0)
    assert found.taken.pace == SecondsPerTrial(pytest.approx(90)) and "6:00 inside 4 trials" in str(found)
    assert set(found.taken.runs) == {"on-digits", "on-glyphs"}
    remembered(spec, tmp_path, 30.0, name="on-both", benchmark=both.benchmark, steps=both.steps)
    assert set(preview_spec(both, Storage(tmp_path), None).taken.runs) == {"on-both"}


def test_tasks_that_are_trained_again_take_their_share_of_the_other_run(spec: SearchSpec, tmp_path: Path) -> None:
    """Two of its three tasks; a run of the same two tasks says more."""
    other = final_spec(spec, name="other", id="x")
    how = Retraining(run="its-earlier-name", run_id="x", forgotten=(5,), kept=0)
    again = final_spec(spec, benchmark="digits?task=0,1&task=2,3", steps=2, retrained=how)
    remembered(other, tmp_path, 60.0)
    for name, runs, seconds in (("again", ("other",), 40.0), ("once-more", ("again",), 30.0)):
        taken = preview_spec(again.model_copy(update={"name": name}), Storage(tmp_path), None).taken
        assert taken.runs == runs and taken.pace == SecondsPerTrial(pytest.approx(seconds))
        remembered(again, tmp_path, 45.0, name=name)


def test_the_wait_until_another_trial_has_computed_a_result_is_no_time_of_a_trial() -> None:
    def trial(prepared: float, hit: float) -> list[dict[str, float]]:
        return [{"seconds/training": 10.0, "seconds/preconsolidation": prepared, "cache/hit": hit}]

    found = pace_of_trials([trial(9.0, 0.0), trial(8.0, 1.0), trial(0.5, 1.0)])  # the second waited for the first
    assert found == SecondsPerTrial(pytest.approx(10 + 2 * 0.5 / 3), pytest.approx(9.0))
    assert pace_of_trials([trial(9.0, 0.0), trial(11.0, 0.0)]) == SecondsPerTrial(10.0, 10.0)  # of a trial, not of both
    assert SecondsPerTrial(6.0, 4.0).of_share(0.5) == SecondsPerTrial(3.0, 2.0)


def test_each_seed_computes_its_own_preconsolidation(spec: SearchSpec, tmp_path: Path) -> None:
    """A search takes it from the cache after its first trial; without a cache every trial computes it."""
    remembered(spec, tmp_path, 60.0, name="before", prepared=(9.0, 1.0))
    pace = SecondsPerTrial(60 + 1.0 * 3 / 4, 9.0)  # three of the four trials read three tasks in a second
    found = previewed(spec, tmp_path, name="now", trials=12)
    assert found.taken.pace == SecondsPerTrial(pytest.approx(pace.own), pytest.approx(pace.shared))
    assert found.seconds_inside == pytest.approx(12 * pace.own + 9)
    assert found.seconds == pytest.approx(6 * pace.own + 9)
    assert previewed(spec, tmp_path, name="now", trials=12, cache_size=0).seconds == pytest.approx(6 * (pace.own + 9))
    begun = preview_spec(spec.model_copy(update={"name": "now"}), Storage(tmp_path), None, [make_trial(0, value=50.0)])
    assert begun.seconds_inside == pytest.approx(3 * pace.own)  # its first trial has computed it
    for ended in (0, 1):
        known = [make_trial(number, value=50.0) for number in range(ended)]
        final = preview_spec(final_spec(spec, trials=2, seeds=(0, 1)), Storage(tmp_path), None, known)
        assert final.seconds_inside == pytest.approx((2 - ended) * (pace.own + 9))
        whose = "its" if ended else "their"
        assert f", or {clock((2 - ended) * pace.own)} if the cache has {whose} pre-consolidations" in str(final)
    uncached = final_spec(spec, trials=2, seeds=(0, 1)).model_copy(update={"cache_size": 0})
    assert "if the cache" not in str(preview_spec(uncached, Storage(tmp_path), None))
    again = {"reevaluate": Reevaluate(best=3, runs=2)}
    assert previewed(spec, tmp_path, **again, name="now").seconds_reevaluating == pytest.approx(3 * pace.own + 9)
    alone = previewed(spec, tmp_path, **again, name="now", cache_size=0).seconds_reevaluating
    assert alone == pytest.approx(3 * (pace.own + 9))


def test_how_large_a_run_became_is_known_from_those_that_finished(spec: SearchSpec, tmp_path: Path) -> None:
    remembered(spec, tmp_path, 60.0, name="smaller", trials=1)
    remembered(spec, tmp_path, 60.0, name="before", trials=2)
    files = [path for path in Storage(tmp_path).run("before").path.rglob("*") if path.is_file()]
    found = previewed(spec, tmp_path, name="now")
    assert found.taken.disk == sum(path.stat().st_size for path in files) > 1000
    assert f"(from smaller, before; the largest takes {decimal(found.taken.disk)} of disk)" in str(found)


def test_how_large_a_run_became_is_not_known_from_one_that_was_stopped(spec: SearchSpec, tmp_path: Path) -> None:
    remembered(spec, tmp_path, 60.0, name="before", trials=2)
    Record(Storage(tmp_path).run("before").record, {}, tasks=3).write(make_trial(1, tasks=1))
    found = previewed(spec, tmp_path, name="now")
    assert found.taken.runs == ("before",) and found.taken.disk is None


def test_how_large_a_run_became_says_nothing_of_runs_of_the_other_kind(spec: SearchSpec, tmp_path: Path) -> None:
    remembered(final_spec(spec), tmp_path, 60.0, name="final")
    found = previewed(spec, tmp_path, name="now")
    assert found.taken.runs == ("final",) and found.taken.disk is None
    assert previewed(final_spec(spec), tmp_path, name="again").taken.disk is not None


def test_images_are_those_of_each_task(spec: SearchSpec, tmp_path: Path) -> None:
    data = DataFacts(digest="0", train=168, per_task=(63, 63, 42), evaluation=24)
    said = str(previewed(spec, tmp_path, data=data, protocol=spec.protocol.model_copy(update={"batch_size": 8})))
    assert "images: 42 to 63 in each of 3 tasks: 6 to 8 steps an epoch (batches of 8)" in said
    few = data.model_copy(update={"per_task": (9, 9, 63)})
    assert ": 1 to 2 steps an epoch (batches of 32)" in str(previewed(spec, tmp_path, data=few))
    assert "; 24 for validation, one of which is up to 4.2 points\n" in said
    assert "choice: by one small split, so it is partly luck; --reevaluate 3" in said
    large = data.model_copy(update={"evaluation": 401})
    assert "choice:" not in str(previewed(spec, tmp_path, data=large))
    assert "choice:" not in str(previewed(spec, tmp_path, data=data, trials=1)), "there is none"
    assert "; 24 for test, one of which" in str(preview_spec(final_spec(spec, data=data), Storage(tmp_path), None))
    uncounted = data.model_copy(update={"per_task": ()})
    assert "images: 56 in each of 3 tasks: " in str(previewed(spec, tmp_path, data=uncounted))


def test_the_one_step_of_a_joint_method_has_the_images_of_all_tasks(spec: SearchSpec, tmp_path: Path) -> None:
    data = DataFacts(digest="0", train=168, per_task=(63, 63, 42), evaluation=24)
    found = previewed(spec, tmp_path, data=data, steps=1)
    assert "images: 168 in each of 1 task: 6 steps an epoch (batches of 32)" in str(found)
    assert (found.as_dict()["images_per_task"], found.as_dict()["steps_per_epoch"]) == ([168], [6])


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        (StopRule(patience=3), "after 3 trials in a row without a gain of more than 4.17 points"),
        (StopRule(patience=3, least_gain=0.7), "after 3 trials in a row without a gain of more than 0.70 points"),
        (StopRule(patience=1, target=90), "after a trial without a gain of more than 4.17 points, or once a trial"),
        (StopRule(patience=2, target=90, since=3), "once a trial comes to 90 %\nno end by patience: it takes 2 trials"),
        (StopRule(target=90), "once a trial comes to 90 %"),
    ],
)
def test_it_says_when_the_search_may_end(spec: SearchSpec, tmp_path: Path, stop: StopRule, said: str) -> None:
    data = DataFacts(digest="0", train=168, per_task=(), evaluation=24)
    found = previewed(spec, tmp_path, data=data, stop=stop)
    assert f"\nends: {said}" in str(found) and found.as_dict()["ends"] == stop.model_dump()


def test_it_says_what_the_search_aims_at_its_bounds_and_ten_tasks(spec: SearchSpec, tmp_path: Path) -> None:
    aim = (Objective(metric="val/forgetting", direction="minimize"),)
    bounds = tuple(Constraint(metric=f"val/{metric}", relation="<=", bound=5) for metric in ("forgetting", "loss"))
    found = previewed(spec, tmp_path, objectives=aim, constraints=bounds)
    assert f"\naims at: less forgetting\nconstraint: {bounds[0]}; {bounds[1]}\n" in str(found)
    assert found.as_dict()["objectives"] == "less forgetting"
    assert found.as_dict()["constraints"] == ["val/forgetting <= 5", "val/loss <= 5"]
    for count, more in ((10, ""), (11, "; and 1 more")):
        tasks = tuple(NamedTask((f"c{number}",)) for number in range(count))
        line, *_ = previewed(spec, tmp_path, tasks=tasks).lines()
        assert line.endswith(f"c9{more}")


def test_where_nothing_is_searched_no_more_trials_are_advised(spec: SearchSpec, tmp_path: Path) -> None:
    assert "none chosen by" not in str(previewed(spec, tmp_path, space={}, start={}, trials=1))


def test_a_run_that_goes_on_is_previewed_with_what_it_has(spec: SearchSpec, tmp_path: Path) -> None:
    spec, directory = make_run_directory(spec, Storage(tmp_path))
    Record(directory.record).write(make_trial(0, value=50.0))
    found = preview_plan(Plan(spec, Storage(tmp_path), named=True, resume_if_exists=True), None)
    assert (found.ended, found.tasks) == (1, 9)


def test_a_warm_start_beside_the_grid_is_one_of_the_points_to_try(spec: SearchSpec, tmp_path: Path) -> None:
    known = (KnownPoint(origin="the paper", point={"alpha": 3.0, "lr": 0.02}, misfits=("lr was 0.9, 0.02 here",)),)
    for trials, said in ((7, "all 7 points of the grid"), (4, "4 of 7 points of the grid, spread")):
        found = str(previewed(spec, tmp_path, algorithm="grid", trials=trials, warm_start=known))
        assert f"{said}\nwarm start: the paper; lr was 0.9, 0.02 here\n" in found


def test_reevaluation_is_in_the_estimate(spec: SearchSpec, tmp_path: Path) -> None:
    remembered(spec, tmp_path, 60.0, name="before")
    found = previewed(spec, tmp_path, name="now", trials=12, reevaluate=Reevaluate(best=3, runs=3))
    assert "re-evaluation: the best 3 again, 3 times each: up to 9 runs, 27 tasks more\n" in str(found)
    assert found.seconds == pytest.approx(360) and "12 trials, up to 5:00 more to re-evaluate, " in str(found)
    assert found.as_dict()["reevaluations"] == 9
    once = previewed(spec, tmp_path, name="now", trials=12, reevaluate=Reevaluate(best=3, runs=1))
    assert "the best 3 again, 1 time each: up to 3 runs" in str(once)
    assert [line for line in found.lines() if line not in found.lines(estimate=False)] == [str(found).splitlines()[-1]]


def test_of_a_run_that_goes_on_what_is_left_is_estimated(spec: SearchSpec, tmp_path: Path) -> None:
    remembered(spec, tmp_path, 60.0, name="before")
    half = replace(make_trial(1, value=50.0), status="running")
    half = replace(half, rows=half.rows[:1])
    spec = spec.model_copy(update={"name": "now", "trials": 4})
    found = preview_spec(spec, Storage(tmp_path), None, [make_trial(0, value=50.0), half])
    assert (found.ended, found.begun, found.tasks) == (1, 1, 8)
    assert "2:40 inside 3 trials" in str(found)
    told = found.as_dict()
    assert (told["trials"], told["ended"], told["tasks"], told["seconds"]) == (4, 1, 8, pytest.approx(106.7, abs=0.1))
    assert told["seconds_per_trial"] == pytest.approx(160 / 3)
    done = make_trial(0, value=50.0)
    for row in done.rows:
        row["seconds/training"] = 7.0
    alone = preview_spec(spec, Storage(tmp_path / "empty"), None, [done])
    assert alone.taken.runs == ("now",) and alone.seconds_inside == pytest.approx(3 * 21)


def test_of_a_search_that_has_ended_early_nothing_is_left_but_its_reevaluations(
    spec: SearchSpec, tmp_path: Path
) -> None:
    remembered(spec, tmp_path, 60.0, name="before")
    again = Reevaluate(best=2, runs=2)
    spec = spec.model_copy(update={"name": "now", "trials": 6, "stop": StopRule(patience=1), "reevaluate": again})
    trials = [make_trial(0, value=50.0), make_trial(1, value=50.0)]

    def left() -> tuple[int, int, int]:
        found = preview_spec(spec, Storage(tmp_path), None, trials)
        return found.left, found.tasks, found.reevaluations

    assert left() == (0, 0, 4)
    runs = ReevaluationSpec.of(spec)
    record = Record(Storage(tmp_path).run("now").reevaluation.record)
    for ended, (candidate, round_) in enumerate([(0, 0), (1, 0), (0, 1), (1, 1)], start=1):
        number = runs.number(candidate, round_)
        record.write(replace(trials[candidate], number=number, seed=runs.seed_of(number)))
        assert left() == (0, 0, 4 - ended)
    said = str(preview_spec(spec, Storage(tmp_path), None, trials))
    assert "2 times each: none is left\n" in said and "more to re-evaluate" not in said
    trials[1] = replace(trials[1], status="running")
    assert left() == (5, 12, 4)  # patience counts ended trials alone


def test_a_search_that_only_finishes_what_runs_prepares_no_more(spec: SearchSpec, tmp_path: Path) -> None:
    remembered(spec, tmp_path, 60.0, name="before", prepared=(30.0, 0.0))
    changes = {"name": "now", "trials": 90, "cache_size": 0.0, "stop": StopRule(patience=1)}
    trials = [make_trial(number, value=50.0) for number in (0, 1)]
    running = replace(make_trial(2), status="running", rows=[])
    found = preview_spec(spec.model_copy(update=changes), Storage(tmp_path), None, [*trials, running])
    assert found.left == 1 and found.taken.pace is not None
    assert found.seconds_inside == found.taken.pace.seconds(1, 1) > 60.0
