"""The time, disk and memory that a campaign still takes, from the runs of its storage and from pilots."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tausearch.campaigns import (
    CampaignPlan,
    CellPlan,
    PilotMeasurement,
    estimate,
    estimates,
    pilots_of,
    read_campaign_status,
    run_pilots,
    seconds_here,
)
from tausearch.campaigns.cell_plans import plan_final
from tausearch.execution import SecondsPerTrial, bytes_of
from tausearch.runs import Record, driver_lock, read_status
from tausearch.runs.creation import make_run_directory
from tausearch.studies import unsearched_best_file
from tests.support.runs.trials import make_trial
from tests.tausearch.campaigns.planned import REEVALUATED, TABLE, planned, remember, started
from trainables.errors import DivergedError, InputError


def test_what_is_left_is_estimated_from_what_the_storage_holds(tmp_path: Path) -> None:
    plan = started(tmp_path, REEVALUATED)
    assert [each.seconds for each in estimate(planned(tmp_path, REEVALUATED))] == [None, None, None]
    remember(plan.cells[0].search.directory, 0, 2.0)
    remember(plan.cells[0].search.directory, 1, 2.0, complete=False)
    left = estimate(planned(tmp_path, REEVALUATED))
    assert left[0].seconds == pytest.approx((4 - 2 + 6) * 10 + 2 * 10)  # no final run yet: as long as the search's
    assert left[0].source == (plan.cells[0].runs.search,) and left[1].seconds is None
    remember(make_run_directory(plan.cells[0].training.spec, plan.storage)[1], 0, 7.0)
    anew = planned(tmp_path, REEVALUATED, redo=["digits/ita-lora"])  # it has no run yet
    assert estimate(anew)[0].seconds == pytest.approx((4 + 6) * 10 + 2 * 35)


def test_a_seed_that_diverged_fails_its_cell_and_nothing_is_left(tmp_path: Path) -> None:
    plan = started(tmp_path)
    search = plan.cells[0].search
    for number in range(4):
        remember(search.directory, number, 2.0)
    start = unsearched_best_file(search.spec).hyperparameters
    for trial in Record(search.directory.record).trials():
        Record(search.directory.record, tasks=5).write(replace(trial, hyperparameters=start))
    final = plan_final(plan.cells[0], plan.request, plan.opening, plan.gpus)
    record = Record(make_run_directory(final.spec, plan.storage)[1].record, tasks=5)
    record.write(make_trial(0, 5, 5.0))
    assert planned(tmp_path).cells[0].status.state == "stopped"
    record.write(replace(make_trial(1, 0, status="diverged", error="not finite"), seed=1))
    status = planned(tmp_path).cells[0].status
    assert (status.state, status.reason) == ("failed", "seed 1 diverged: not finite")
    assert planned(tmp_path).cells[0].next == "nothing"
    assert estimate(planned(tmp_path))[0].seconds == 0


def test_a_driven_cell_searches_then_reevaluates(tmp_path: Path) -> None:
    plan = started(tmp_path, REEVALUATED)
    search, states = plan.cells[0].search.directory, []
    with driver_lock(search):
        for number in range(4):
            remember(search, number, 1.0)
            states.append(read_campaign_status(plan.storage, plan.directory).cells[0].state)
    assert states == ["searching"] * 3 + ["reevaluating"]


def test_a_pilot_says_what_no_run_has_said(tmp_path: Path) -> None:
    text = TABLE.replace("[digits]", "['digits?epochs=1']").replace("[ita-lora, finetune]", "[finetune]")
    run_pilots(planned(tmp_path, text))
    pilot, joint = estimate(planned(tmp_path, text))
    assert pilot.seconds is not None and pilot.seconds > 0 and pilot.source == ("pilot",)
    measured = json.loads(planned(tmp_path, text).directory.pilot_file.read_text())
    paces = {name: found["pace"]["own"] for name, found in measured.items()}
    assert pilot.seconds == pytest.approx((4 + 2) * paces["digits-epochs-1/finetune"], rel=0.01)
    assert joint.seconds == pytest.approx(2 * paces["digits-epochs-1/joint"], rel=0.01)  # neither prepares anything
    assert pilot.memory is not None and 2**28 < pilot.memory < 2**36
    (tmp_path / "runs" / "campaigns" / "t" / "pilot.json").write_text("[1")
    assert estimate(planned(tmp_path, text))[0].seconds is None  # it is only a help


PILOT = {"pace": {"own": 1.0, "shared": 100.0}, "memory": 2**30}


def piloted(plan: CampaignPlan) -> CampaignPlan:
    """Leave a pilot of the first cell."""
    of = estimates._of_trial(estimates._piloted(plan.cells[0]))
    plan.directory.pilot_file.write_text(json.dumps({"digits/ita-lora": {**PILOT, "of": of}}))
    return plan


def test_what_the_cache_will_have_is_computed_once_for_each_seed(tmp_path: Path) -> None:
    """One trial of the search, a re-evaluation in each of two rounds, and both seeds of the final run."""
    plan = piloted(started(tmp_path, REEVALUATED))
    found = estimate(planned(tmp_path, REEVALUATED))[0]
    assert found.seconds == pytest.approx(4 + 6 + 2 + 100 * (1 + 2 + 2))
    assert found.source == ("pilot",)  # the search has begun, and no trial has ended
    plan.directory.pilot_file.write_text(json.dumps({"digits/ita-lora": {"seconds": 1.0, "memory": 2**30}}))
    assert estimate(planned(tmp_path, REEVALUATED))[0].seconds is None  # a damaged file is only no help


def test_a_pilot_counts_for_its_trial_under_any_name_with_any_cache_and_any_share(tmp_path: Path) -> None:
    config = estimates._piloted(planned(tmp_path).cells[0])
    shared = replace(config, run="another", cache_bytes=1, gpus_per_trial=0.25)
    assert estimates._of_trial(shared) == estimates._of_trial(replace(config, gpus_per_trial=1.0))
    assert estimates._of_trial(shared) != estimates._of_trial(config)


def planned_in_its_folder(tmp_path: Path) -> CampaignPlan:
    plan = planned(tmp_path)
    plan.directory.path.mkdir(parents=True)
    return plan


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cells that are piloted; each trial takes a second."""
    asked: list[str] = []

    def pilot(cell: CellPlan) -> PilotMeasurement:
        asked.append(cell.title)
        return PilotMeasurement(SecondsPerTrial(1.0), 1, "")

    monkeypatch.setattr(estimates, "_pilot", pilot)
    return asked


def test_a_pilot_of_other_options_says_nothing_and_is_run_again(tmp_path: Path, asked: list[str]) -> None:
    plan = piloted(planned_in_its_folder(tmp_path))
    assert estimate(planned(tmp_path))[0].source == ("pilot",)
    changed = TABLE.replace("algorithm: random", "algorithm: random, epochs: 2")
    assert estimate(planned(tmp_path, changed))[0].seconds is None
    run_pilots(planned(tmp_path))
    assert asked == ["digits/finetune", "digits/joint"]
    assert list(pilots_of(plan.directory)) == ["digits/ita-lora", *asked]
    run_pilots(planned(tmp_path, changed))
    assert asked[2:] == [cell.title for cell in plan.cells]


def test_a_pilot_that_fails_is_named_and_the_others_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def pilot(cell: CellPlan) -> PilotMeasurement:
        if cell.title == "digits/ita-lora":
            raise ValueError("a broken method")
        return PilotMeasurement(SecondsPerTrial(1.0), 1, "")

    monkeypatch.setattr(estimates, "_pilot", pilot)
    plan = planned(tmp_path)
    run_pilots(plan)
    assert list(pilots_of(plan.directory)) == ["digits/finetune", "digits/joint"]
    assert "tausearch: digits/ita-lora: its pilot failed (ValueError: a broken method" in capsys.readouterr().err


def test_a_pilot_that_diverges_in_its_first_task_says_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows(sequence: object, tasks: int) -> Iterator[dict[str, float]]:
        raise DivergedError(1)
        yield {}

    monkeypatch.setattr("trainables.trial.build_sequence", lambda config: config.method)
    monkeypatch.setattr("tausearch.cluster.first_rows", rows)
    run_pilots(planned(tmp_path))
    assert {each.seconds for each in estimate(planned(tmp_path))} == {None}
    assert capsys.readouterr().err.count("its pilot failed (DivergedError: ") == 3


def test_a_pilot_takes_its_first_task_once_and_its_second_for_every_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piloted: list[str] = []

    def rows(sequence: str, tasks: int) -> Iterator[dict[str, float]]:
        piloted.append(sequence)
        assert tasks == 2
        yield {"seconds/training": 9.0, "seconds/evaluation": 1.0, "val/accuracy": 50.0}
        if sequence == "joint":  # what it has finished counts
            raise DivergedError(2)
        yield {"seconds/training": 3.0}

    monkeypatch.setattr("trainables.trial.build_sequence", lambda config: config.method)
    monkeypatch.setattr("tausearch.cluster.first_rows", rows)
    plan = started(tmp_path)
    remember(plan.cells[0].search.directory, 0, 2.0)
    run_pilots(planned(tmp_path))
    assert piloted == ["finetune", "joint"]  # the time of the first cell is known
    seconds = {title: found.pace.seconds(1, 1) for title, found in pilots_of(plan.directory).items()}
    assert seconds == {"digits/finetune": 10 + 4 * 3, "digits/joint": 10}


def test_another_benchmark_says_nothing_of_the_time_and_only_ended_runs_of_the_size(tmp_path: Path) -> None:
    plan = started(tmp_path, TABLE.replace("[digits]", "[digits, 'digits?epochs=1']"))
    search, final = plan.cells[0].search, make_run_directory(plan.cells[0].training.spec, plan.storage)[1]
    unsearched_best_file(search.spec).save(search.directory.best_file)
    for number in range(2):
        remember(final, number, 2.0, seed=number)
    again = planned(tmp_path, TABLE.replace("[digits]", "[digits, 'digits?epochs=1']"), redo=["digits/ita-lora"])
    found = dict(zip((cell.runs.title for cell in again.cells), estimate(again), strict=True))
    assert found["digits-epochs-1/ita-lora"].seconds is None and found["digits/ita-lora"].seconds == pytest.approx(60)
    assert found["digits/ita-lora"].source == (search.spec.name, plan.cells[0].runs.final)
    assert found["digits/ita-lora"].disk is None  # the search has not ended
    for number in range(4):
        remember(search.directory, number, 2.0)
    ended = estimate(again)[0]
    assert ended.disk == bytes_of(search.directory.path) + bytes_of(final.path)


def test_a_cell_that_is_not_searched_becomes_as_large_as_its_final_run(tmp_path: Path) -> None:
    plan = started(tmp_path)
    final = make_run_directory(plan.cells[2].training.spec, plan.storage)[1]
    for number in range(2):
        Record(final.record, tasks=1).write(replace(make_trial(number, 1, 5.0), seed=number))
    anew = planned(tmp_path, redo=["digits/joint"])
    assert estimate(anew)[2].disk == bytes_of(final.path)
    searched = plan.cells[2].search.spec.model_copy(update={"name": "s", "id": "s", "trials": 1, "reevaluate": None})
    search = make_run_directory(searched, plan.storage)[1]
    Record(search.record, tasks=1).write(make_trial(0, 1, 5.0))
    unsearched_best_file(searched).save(search.best_file)
    assert read_status(plan.storage.run("s")).state == "finished"
    assert estimate(anew)[2].disk == bytes_of(final.path)


@pytest.mark.parametrize("purpose", ["search", "final"])
def test_a_run_of_either_purpose_is_preferred_to_a_pilot(purpose: str, tmp_path: Path) -> None:
    plan = started(tmp_path)
    search, training = plan.cells[0].search, plan.cells[0].training
    measured = search.directory if purpose == "search" else make_run_directory(training.spec, plan.storage)[1]
    remember(measured, 0, 10.0)  # 50 seconds
    piloted(plan)
    anew = planned(tmp_path, redo=["digits/ita-lora"])
    (first, *_) = estimate(anew)
    assert first.seconds == pytest.approx((4 + 2) * 50) and measured.name in first.source


def test_runs_on_another_backbone_say_nothing_of_the_time(tmp_path: Path) -> None:
    remember(started(tmp_path).cells[0].search.directory, 0, 10.0)
    elsewhere = TABLE.replace("campaign: t", "campaign: u")
    assert estimate(planned(tmp_path, elsewhere))[0].seconds == pytest.approx(6 * 50)
    plan = planned(tmp_path, elsewhere)
    first, *others = plan.cells
    spec = first.search.spec
    protocol = spec.protocol.model_copy(update={"backbone": "vit_base_patch16_224"})
    moved = replace(first.search, spec=spec.model_copy(update={"protocol": protocol}))
    assert estimate(replace(plan, rows=(replace(first, search=moved), *others)))[0].seconds is None


def test_a_pilot_needs_the_gpu_that_its_trials_have_on_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.campaigns.plans.gpus_at", lambda address: 2)
    for place in ("tausearch.cluster.resources", "tausearch.campaigns.plans"):
        monkeypatch.setattr(f"{place}.require_reachable", lambda address: None)
    plan = planned(tmp_path, address="head:6379")
    with pytest.raises(InputError, match="^--pilot runs on this machine, which has no GPU"):
        run_pilots(plan)
    assert not plan.directory.path.exists()


def first_on_gpu(plan: CampaignPlan, share: float = 1.0) -> CampaignPlan:
    """The plan with a GPU, or a share of one, for each trial of the first cell."""
    first = plan.cells[0]
    spec = first.search.spec
    on_gpu = spec.model_copy(update={"resources": spec.resources.model_copy(update={"gpus_per_trial": share})})
    return replace(plan, rows=(replace(first, search=replace(first.search, spec=on_gpu)), *plan.cells[1:]))


def test_pilots_need_no_gpu_for_a_cell_that_is_measured(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimates, "gpus_here", lambda: 0)
    monkeypatch.setattr(estimates, "estimate", lambda _: [estimates.Estimate(each) for each in (100.0, None, None)])
    run_pilots(first_on_gpu(planned(tmp_path)))
    assert asked == ["digits/finetune", "digits/joint"]


@pytest.mark.parametrize(
    ("cpus", "gpus", "share", "at_most", "seconds"),
    [
        (4, 2, 1.0, None, 75.0),  # 300 s on one CPU each: the CPUs are the least of it
        (4, 2, 1.0, 3, 100.0),
        (4, 1, 1.0, None, 100.0),  # and 100 s on a GPU alone
        (4, 1, 0.25, None, 75.0),  # of which four run at a time
        (1, 8, 1.0, None, 300.0),
    ],
)
def test_the_time_here_is_that_of_what_is_short(
    cpus: int,
    gpus: int,
    share: float,
    at_most: int | None,
    seconds: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = planned(tmp_path, max_concurrent_trials=at_most)
    monkeypatch.setattr(estimates, "local_cpus", lambda: cpus)
    monkeypatch.setattr(estimates, "gpus_here", lambda: gpus)
    found = [estimates.Estimate(100.0)] * 3
    assert seconds_here(first_on_gpu(plan, share), found) == pytest.approx(seconds)


def test_the_time_of_a_cell_without_a_search_is_that_of_its_final_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(tmp_path)
    monkeypatch.setattr(estimates, "local_cpus", lambda: 2)
    joint = plan.cells[2]
    spec = joint.training.spec
    wide = spec.model_copy(update={"resources": spec.resources.model_copy(update={"cpus_per_trial": 2})})
    plan = replace(plan, rows=(*plan.cells[:2], replace(joint, training=replace(joint.training, spec=wide))))
    assert seconds_here(plan, [estimates.Estimate(100.0)] * 3) == pytest.approx((100.0 + 100.0 + 200.0) / 2)
