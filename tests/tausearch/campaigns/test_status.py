"""The state of a campaign and of its cells, as the files of its runs say it."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.campaigns import CampaignPlan, all_campaign_statuses, options_of, read_campaign_status, read_cells
from tausearch.campaigns.active_cell import ActiveCell
from tausearch.campaigns.cells import CellRuns
from tausearch.campaigns.outputs import copy_best, write_outputs
from tausearch.campaigns.status import CampaignStatus, CellStatus
from tausearch.runs import (
    FinalSpec,
    Plan,
    Record,
    Reevaluate,
    ReevaluationSpec,
    RunDirectory,
    SearchSpec,
    Storage,
    StorageError,
    TrialSummary,
    choice_remark,
    driver_lock,
    read_spec,
)
from tausearch.runs.creation import make_run_directory
from tausearch.studies import load_best, unsearched_best_file
from tausearch.studies.best_file import make_best_file
from tausearch.studies.best_listener import write_best
from tests.support.command_line import Command
from tests.support.runs.final_runs import make_final_run
from tests.support.runs.trials import make_trial
from tests.tausearch.campaigns.planned import REEVALUATED, TABLE, planned, remember, started
from trainables.errors import InputError


def status_of(plan: CampaignPlan) -> CampaignStatus:
    return read_campaign_status(plan.storage, plan.directory)


def states(plan: CampaignPlan) -> list[str]:
    return [each.state for each in status_of(plan).cells]


def test_cells_that_wait_for_their_turn_in_a_campaign_that_runs(tmp_path: Path) -> None:
    plan = started(tmp_path)
    search = plan.cells[0].search
    assert states(plan) == ["stopped", "waiting", "waiting"]
    with driver_lock(plan.directory, "campaign"):
        assert states(plan) == ["waiting", "waiting", "waiting"]  # made, and no trial has ended
        with driver_lock(search.directory):
            assert states(plan)[0] == "waiting"  # open, and there is no room for its first trial
        Record(search.directory.record, tasks=5).write(make_trial(3, 2))
        assert status_of(plan).cells[0].n_ended == (0, 0)
        remember(search.directory, 0, 1.0)
        assert states(plan)[0] == "searching"
        with driver_lock(search.directory):
            assert states(plan)[0] == "searching"
        for number in range(1, 4):
            remember(search.directory, number, 1.0)
        unsearched_best_file(search.spec).save(search.directory.best_file)
        assert states(plan)[0] == "searching"  # it has chosen, and its final run is not made
        final = final_run_of(plan)
        assert states(plan)[0] == "training"
        for seed in range(2):
            remember(final, seed, 1.0, seed=seed)
        assert states(plan)[0] == "done" and status_of(plan).state == "running"
        assert (
            read_campaign_status(plan.storage, plan.directory, running=False).state == "stopped"
        )  # its own lock, at its end
    assert status_of(plan).state == "stopped"


def test_a_campaign_has_ended_when_every_cell_is_done_or_failed(tmp_path: Path) -> None:
    plan = started(tmp_path)
    cells = tuple(
        CellStatus(each.runs, state) for each, state in zip(plan.cells, ("done", "failed", "done"), strict=True)
    )  # type: ignore[arg-type]
    ended = CampaignStatus(plan.directory, False, cells, plan.saved_cells)
    assert (ended.finished, ended.state) == (True, "finished")
    assert replace(ended, running=True).state == "running"
    assert [each.runs.title for each in ended.failed_cells] == ["digits/finetune"]


def test_the_command_that_continues_allows_the_code_of_cells_that_have_not_begun(tmp_path: Path) -> None:
    status = status_of(started(tmp_path))
    ahead = replace(status, saved=status.saved.model_copy(update={"code": ("mine:Method", "mine:Sampler")}))
    assert ahead.command("").endswith(
        " --allow-code mine:Method --allow-code mine:Sampler"
    ) and "--allow-code" not in status.command("")


def test_the_first_of_several_lost_seeds_is_named(tmp_path: Path) -> None:
    plan = started(tmp_path, TABLE.replace("[0, 1]", "[5, 6]"))
    record = Record(make_run_directory(plan.cells[2].training.spec, plan.storage)[1].record, tasks=1)
    record.write(replace(make_trial(0, 0, status="diverged", error="not finite"), seed=5))
    record.write(replace(make_trial(1, 0, status="failed", error="killed"), seed=6))
    first = status_of(plan).cells[2]
    assert (first.state, first.reason) == ("failed", "seed 5 diverged: not finite")


def test_a_lost_seed_is_named_with_its_class_order(tmp_path: Path) -> None:
    plan = started(tmp_path, TABLE.replace("[0, 1]", "[5], class_orders: [7, 8]"))
    record = Record(make_run_directory(plan.cells[2].training.spec, plan.storage)[1].record, tasks=1)
    record.write(on_test(replace(make_trial(0, 1, 80.0), seed=5)))
    record.write(replace(make_trial(1, 0, status="failed", error="killed"), seed=5))
    assert status_of(plan).cells[2].reason == "seed 5 (class order 8) failed: killed"


def test_scores_are_those_of_the_seeds_that_have_finished(tmp_path: Path) -> None:
    plan = started(tmp_path)
    directory = make_run_directory(plan.cells[2].training.spec, plan.storage)[1]
    directory.results_file.write_text("{}")  # of an earlier, shorter run
    assert status_of(plan).cells[2].scores == {}
    record = Record(directory.record, tasks=1)
    record.write(on_test(make_trial(0, 1, 80.0)))
    record.write(replace(make_trial(1, 0), seed=1))
    assert status_of(plan).cells[2].n_ended == (0, 1)
    score = status_of(plan).cells[2].accuracy
    assert score is not None and (score.mean, score.seeds) == (80.0, 1)


def on_test(trial: TrialSummary) -> TrialSummary:
    rows = [{name.replace("val/", "test/"): value for name, value in row.items()} for row in trial.rows]
    return replace(trial, rows=rows)


def with_first_cell_done(tmp_path: Path) -> tuple[CampaignPlan, Plan[SearchSpec], RunDirectory]:
    """A campaign whose first cell has all its trials and seeds, its search, and the directory of its final run."""
    plan = started(tmp_path)
    search, final = plan.cells[0].search, final_run_of(plan)
    for number in range(4):
        remember(search.directory, number, 1.0)
    for seed in range(2):
        remember(final, seed, 1.0, seed=seed)
    return plan, search, final


def test_a_cell_is_done_when_it_has_what_its_file_asks_for_now(tmp_path: Path) -> None:
    """A driver that was killed soon after the file had changed has begun none of the new trials and seeds."""
    plan, search, final = with_first_cell_done(tmp_path)
    assert states(plan)[0] == "done" and status_of(plan).cells[0].left == (0, 0)
    asked = read_cells(plan.directory)
    for change, left in (({"seeds": 3}, (0, 1)), ({"trials": 6}, (2, 0)), ({"trials": 5, "seeds": 4}, (1, 2))):
        asked.with_cell(asked.cells[0].model_copy(update=change)).save(plan.directory)
        status = status_of(plan)
        assert (status.cells[0].state, status.cells[0].left, status.finished) == ("stopped", left, False)
        with driver_lock(plan.directory, "campaign"):
            assert states(plan)[0] == ("searching" if "trials" in change else "training")


def final_run_of(plan: CampaignPlan) -> RunDirectory:
    """Make the final run of the first cell, with the configuration of its trial 0."""
    search, final = plan.cells[0].search.spec, plan.cells[0].training.spec
    chosen = unsearched_best_file(search.model_copy(update={"start": make_trial(0).hyperparameters}))
    changed = {"fixed": chosen.hyperparameters, "source": search.name, "tuned_on": search.benchmark}
    return make_run_directory(final.model_copy(update=changed), plan.storage)[1]


def extend_by_hand(plan: CampaignPlan, trials: int) -> None:
    search = plan.cells[0].search
    search.spec.model_copy(update={"trials": trials}).save(search.directory)


def test_a_final_run_of_an_earlier_choice_makes_no_cell_done(tmp_path: Path) -> None:
    plan, search, final = with_first_cell_done(tmp_path)
    assert states(plan)[0] == "done" and status_of(plan).cells[0].reason is None

    extend_by_hand(plan, 5)
    known = "search 't-digits-ita-lora' has 5 trials, and the file asked for 4"
    advice = f"{known}: write trials: 5, reevaluate: 0 for this cell before"
    first = status_of(plan).cells[0]
    assert (first.state, first.left) == ("stopped", (1, 0)) and str(first.reason).startswith(advice)
    remember(search.directory, 4, 1.0)  # as good as trial 0, which stays chosen
    first = status_of(plan).cells[0]
    assert first.state == "done" and str(first.reason).startswith(advice)

    trial = make_trial(4, 5, 50.0)
    Record(search.directory.record, tasks=5).write(trial)
    earlier = "final run 't-digits-ita-lora-final' does not train what search 't-digits-ita-lora' chooses now"
    first = status_of(plan).cells[0]
    assert (first.state, first.left) == ("stopped", (0, 2)) and not status_of(plan).finished
    assert first.reason == first.as_dict()["reason"] == f"{earlier}; {advice} the campaign goes on"
    spec = read_spec(final)
    assert isinstance(spec, FinalSpec) and choice_remark(final, spec) == ""  # no best file says what is chosen
    write_best(search.spec, search.directory, [trial])
    assert (line := choice_remark(final, spec)) and line in str(first.reason)
    same = spec.model_copy(update={"fixed": load_best(search.directory.best_file).hyperparameters})
    changed = {"lr": 0.5}
    overridden = same.model_copy(update={"fixed": same.fixed | changed, "overrides": changed})
    assert choice_remark(final, same) == choice_remark(final, overridden) == ""


def test_a_search_that_was_extended_by_hand_to_fewer_trials_than_the_file_asks_says_that_it_goes_on(
    tmp_path: Path,
) -> None:
    """It had ended early before."""
    plan, search, _ = with_first_cell_done(tmp_path)
    cells = read_cells(plan.directory)
    cells.with_cell(cells.cells[0].model_copy(update={"trials": 6})).save(plan.directory)
    assert status_of(plan).cells[0].reason is None  # the file asks for more now
    stop = search.spec.stop.model_copy(update={"since": 3})
    search.spec.model_copy(update={"stop": stop}).save(search.directory)
    kept = "the campaign runs 2 more, unless the file says trials: 4, reevaluate: 0 for this cell"
    assert status_of(plan).cells[0].reason == (
        f"search 't-digits-ita-lora' has 4 trials, and the file asks for 6: {kept}"
    )
    assert [planned(tmp_path, trials=trials).cells[0].added for trials in (6, 4)] == [2, 0]


def test_a_search_that_was_extended_by_hand_is_kept_with_its_trials_in_the_file(tmp_path: Path) -> None:
    """The campaign completes it, and trains its new choice under a new name."""
    plan, search, final = with_first_cell_done(tmp_path)
    for run in (search.directory, final):
        plan.directory.mark_concluded(run.name)
    extend_by_hand(plan, 5)
    kept = "to keep its 5 trials, write trials: 5, reevaluate: 0 for this cell"
    said = f"trials was 5, is now 4; {kept}; to start the cell anew: --redo"
    with pytest.raises(InputError, match=said):
        planned(tmp_path)
    reevaluating = search.spec.model_copy(update={"reevaluate": Reevaluate(best=1, runs=1)})
    assert options_of(reevaluating, 9) == "trials: 9"  # as many trials re-evaluate by default
    going = planned(tmp_path, trials=5)
    assert going.cells[0].next == "go on"
    with ExitStack() as locks:
        opened = ActiveCell(going, going.cells[0], print).open(locks)
        assert opened is not None and opened.spec.name == search.spec.name  # it was concluded with four trials
    assert not plan.directory.is_concluded(search.spec.name)

    remember(search.directory, 4, 1.0)
    best = make_trial(4, 5, 50.0)
    Record(search.directory.record, tasks=5).write(best)
    make_best_file(search.spec, best, 5).save(search.directory.best_file)
    anew = planned(tmp_path, trials=5).cells[0]
    assert (anew.runs.final, anew.next) == ("t-digits-ita-lora-final-1", "go on")


def test_a_record_that_must_not_be_read_keeps_no_other_cell_from_view_but_lets_nothing_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = started(tmp_path)
    listed, denied = os.listdir, plan.cells[0].search.directory.record

    def listdir(folder: Path) -> list[str]:
        if folder == denied:
            raise PermissionError(errno.EACCES, "Permission denied")
        return listed(folder)

    monkeypatch.setattr(os, "listdir", listdir)
    first, *others = status_of(plan).cells
    assert first.state == "failed" and str(first.reason).endswith("record: cannot be read (Permission denied)")
    assert {each.state for each in others} == {"waiting"}
    with pytest.raises(StorageError, match="Permission denied"):
        started(tmp_path)


def test_reevaluations_that_have_ended_are_not_left(tmp_path: Path) -> None:
    plan = started(tmp_path, REEVALUATED)
    search = plan.cells[0].search
    again = ReevaluationSpec.of(search.spec)
    left = [status_of(plan).cells[0].reevaluations_left]
    for number in range(4):
        remember(search.directory, number, 1.0)
    for number, tasks in ((0, 5), (1, 2)):
        run = make_trial(0, tasks, 5.0 if tasks == 5 else None)
        Record(search.directory.reevaluation.record, tasks=5).write(
            replace(run, number=number, seed=again.seed_of(number))
        )
        left.append(status_of(plan).cells[0].reevaluations_left)
    former = replace(make_trial(3, 5, 5.0), number=again.number(3, 0), seed=again.seed_of(0))
    Record(search.directory.reevaluation.record, tasks=5).write(former)
    left.append(status_of(plan).cells[0].reevaluations_left)
    assert left == [6, 5, 5, 5]  # of the best two and the start; one that runs is left, one of no candidate is nothing
    over: Any = SimpleNamespace(state="finished", reevaluation=SimpleNamespace(runs=()))
    assert CellStatus(plan.cells[0].runs, "stopped", over).reevaluations_left == 0  # the others were eliminated


def test_campaigns_are_listed_and_unreadable_ones_named(tmp_path: Path) -> None:
    plan = started(tmp_path)
    broken = plan.storage.campaign("broken")
    broken.path.mkdir(parents=True)
    broken.spec_file.write_text("cells: 3")
    found, faults = all_campaign_statuses(plan.storage)
    said = f"{broken.spec_file}: key 'campaign' is missing"
    assert [each.name for each in found] == ["t"] and [str(fault) for fault in faults] == [said]


def test_a_campaign_that_is_deleted_leaves_its_runs_and_other_campaigns(tmp_path: Path, command: Command) -> None:
    plan = started(tmp_path)
    name, run = plan.directory.name, plan.cells[0].search.spec.name
    final = make_final_run(plan.storage, plan.cells[0].runs.final, [70.0]).name
    other = plan.storage.campaign("other")
    other.path.mkdir()
    read_cells(plan.directory).model_copy(update={"campaign": "other"}).save(other)

    def refused(*words: str) -> str:
        return command(*words, "--storage", plan.storage.root, code=2)[1]

    assert f" campaign delete {name} " in refused("runs", "delete", run, "--yes")
    assert "no campaign named 'nope'" in refused("campaign", "delete", "nope", "--yes")
    assert "--yes deletes without asking" in refused("campaign", "delete", name)
    with driver_lock(plan.directory, "campaign"):
        assert f"campaign {name!r} is being driven" in refused("campaign", "delete", name, "--yes")
    kept = read_cells(plan.directory)  # a cell has left the file
    kept.model_copy(update={"cells": kept.cells[1:], "gone": kept.cells[:1]}).save(plan.directory)
    out, _ = command("campaign", "delete", name, "--yes", "--storage", plan.storage.root)
    assert out == f"deleted campaign {name} (runs that stay: {run}, {final})\n"
    assert not plan.directory.path.exists() and read_cells(other)
    assert plan.storage.run_exists(run) and plan.storage.run_exists(final)


@pytest.mark.parametrize("file", ["campaign.yaml", "pilot.json"])
def test_a_campaign_that_cannot_be_read_or_has_a_pilot_alone_can_be_deleted(
    file: str, storage: Storage, command: Command
) -> None:
    folder = storage.campaign("broken").path
    folder.mkdir(parents=True)
    (folder / file).write_text("{}")
    assert command("campaign", "delete", "broken", "--yes", "--storage", storage.root)[0] == "deleted campaign broken\n"
    assert not folder.exists()


def test_a_best_file_is_that_of_the_search_or_of_the_final_run_without_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = started(tmp_path)
    first, *_, joint = plan.cells
    assert [copy_best(plan.storage, plan.directory, each.runs) for each in plan.cells] == [None] * 3
    best = unsearched_best_file(first.search.spec)
    chosen = best.model_copy(update={"hyperparameters": {**best.hyperparameters, "lr": 0.07}})
    chosen.save(first.search.directory.best_file)
    make_run_directory(joint.training.spec, plan.storage)
    files = [copy_best(plan.storage, plan.directory, each.runs) for each in plan.cells]
    searched, none, trained = files
    assert searched and trained and none is None and load_best(searched).hyperparameters["lr"] == 0.07
    assert trained == plan.directory.path / "best/digits/joint.yaml" and load_best(trained).method == "joint"
    remember(first.search.directory, 0, 1.0)
    for damage in (lambda file: file.write_text("a: ["), Path.unlink):
        damage(first.search.directory.best_file)
        assert copy_best(plan.storage, plan.directory, first.runs) == searched
        assert load_best(searched).hyperparameters["alpha"] == 1.0  # of the record
    assert capsys.readouterr().err.count("its content was taken from the record") == 1


def test_the_best_file_of_a_cell_that_has_left_the_file_goes_and_comes_back(tmp_path: Path) -> None:
    plan = started(tmp_path)
    first, _, joint = plan.cells
    unsearched_best_file(first.search.spec).save(first.search.directory.best_file)
    make_run_directory(joint.training.spec, plan.storage)
    kept = read_cells(plan.directory)
    mine = plan.directory.path / "best/digits/mine.yaml"
    files = [plan.directory.path / f"best/{each.benchmark}/{each.method}.yaml" for each in (first.runs, joint.runs)]

    def there(cells: tuple[CellRuns, ...], gone: tuple[CellRuns, ...]) -> list[bool]:
        kept.model_copy(update={"cells": cells, "gone": gone}).save(plan.directory)
        write_outputs(plan.storage, status_of(plan))
        return [each.exists() for each in files]

    assert there(kept.cells, ()) == [True, True]
    mine.touch()
    again = first.runs.model_copy(update={"title": "under another title"})
    assert there(kept.cells[:-1], (again, joint.runs)) == [True, False] and mine.exists()
    assert there(kept.cells, ()) == [True, True]
    figures = [plan.directory.path / f"figures/digits.{form}" for form in ("png", "pdf")]
    figures[0].parent.mkdir()
    for figure in figures:
        figure.touch()
    there(kept.cells[1:], (first.runs,))
    assert all(figure.exists() for figure in figures)  # of the other cells
    elsewhere = tuple(cell.model_copy(update={"benchmark": "glyphs"}) for cell in kept.cells)
    assert there(elsewhere, (first.runs, joint.runs)) == [False, False]
    assert not any(figure.exists() for figure in figures)
    assert there(kept.cells, ()) == [True, True]
    assert first.search.directory.best_file.exists() and plan.storage.run_exists(joint.runs.final)
    for run in (first.search.directory.path, plan.storage.run(joint.runs.final).path):
        shutil.rmtree(run)
    assert there(kept.cells[1:-1], (first.runs, joint.runs)) == [True, True]  # nothing else has the choices now


@pytest.mark.parametrize("finished", [False, True])
def test_the_report_is_written_at_the_end_only(finished: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = started(tmp_path)
    report = plan.directory.report_file
    monkeypatch.setattr("tausearch.campaigns.outputs._write_report", lambda *_: report)
    cells = tuple(CellStatus(each.runs, "failed" if finished else "waiting") for each in plan.cells)
    files = write_outputs(plan.storage, CampaignStatus(plan.directory, False, cells, plan.saved_cells))
    assert files == [report] * finished
