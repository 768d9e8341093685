"""Which runs a campaign opens, and which it opens again."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tausearch.api.finishing import conclude
from tausearch.campaigns import (
    CampaignPlan,
    CampaignRequest,
    campaign_of,
    estimate,
    plan_campaign,
    read_campaign_status,
    read_cells,
)
from tausearch.campaigns.active_cell import ActiveCell
from tausearch.campaigns.cell_plans import plan_final
from tausearch.campaigns.driver import _plots_of_searches
from tausearch.cli import main
from tausearch.execution import Interrupt, RunQueue, StorageWatch
from tausearch.runs import (
    CampaignDirectory,
    Record,
    Reevaluate,
    RunDirectory,
    RunResult,
    SearchSpec,
    TrialSummary,
    read_spec,
)
from tausearch.runs.creation import make_run_directory
from tausearch.studies import load_best
from tests.support.runs.trials import make_trial
from trainables.errors import InputError

TABLE = "campaign: t\nbenchmarks: [digits]\nmethods: [finetune, ewc]\nsearch: {trials: 2}\n"
ONE_CELL = TABLE.replace("[finetune, ewc]", "[finetune]")


def planned(tmp_path: Path, table: str = TABLE) -> CampaignPlan:
    (tmp_path / "t.yaml").write_text(table)
    plan = plan_campaign(CampaignRequest(tmp_path / "t.yaml", storage=tmp_path))
    plan.directory.path.mkdir(parents=True, exist_ok=True)
    plan.saved_cells.save(plan.directory)
    return plan


def queue_of(cells: list[ActiveCell], plan: CampaignPlan) -> RunQueue:
    return RunQueue(cells, Interrupt(), StorageWatch(plan.directory), lambda line: None, lambda cell, run: [])


def opened(plan: CampaignPlan, said: list[str] | None = None) -> list[str]:
    """The names of the runs that are opened of all cells, one after another, none of which is run; then what failed."""
    said = [] if said is None else said
    cells = [ActiveCell(plan, planned, said.append) for planned in plan.cells]
    queue = queue_of(cells, plan)
    names = []
    try:
        while (run := queue.open_next()) is not None:
            names.append(run.spec.name)
    finally:
        queue.release()
    return [*names, *(cell.runs.title for cell in cells if cell.error is not None)]


def test_a_campaign_that_is_refused_leaves_no_run_that_is_new(tmp_path: Path) -> None:
    """A cluster's nodes are refused once runs are open. A cell of one may then be changed in the file."""
    plan = planned(tmp_path)
    cells = [ActiveCell(plan, each, lambda line: None) for each in plan.cells]
    queue = queue_of(cells, plan)
    begun, new = (run.directory for _ in cells if (run := queue.open_next()) is not None)
    assert begun.path.is_dir() and new.path.is_dir()
    Record(begun.record).write(make_trial(0, value=60.0))
    queue.release(InputError("a node is unfit"))
    assert begun.path.is_dir() and not new.path.exists()


def test_a_run_that_was_seen_to_its_end_is_not_opened_and_a_deleted_one_is_made_again(tmp_path: Path) -> None:
    first, second = "t-digits-finetune", "t-digits-ewc"
    assert opened(planned(tmp_path)) == [first, second]
    plan = planned(tmp_path)
    for name in (first, f"{first}-final"):
        plan.directory.mark_concluded(name)
    make_run_directory(plan.cells[0].training.spec, plan.storage)
    assert opened(plan) == [second]
    shutil.rmtree(tmp_path / first)
    assert opened(plan) == [first, second]
    assert not plan.directory.is_concluded(first)  # if it is stopped now, it goes on


def test_what_is_concluded_has_its_whole_name(tmp_path: Path) -> None:
    directory = CampaignDirectory(tmp_path)
    for name in ("c.5", "c.reevaluation"):
        directory.mark_concluded(name)
    assert [name for name in ("c", "c.5", "c.reevaluation", "c.6") if directory.is_concluded(name)] == [
        "c.5",
        "c.reevaluation",
    ]


def test_a_final_run_with_more_seeds_is_opened_again_and_trains_only_these(tmp_path: Path) -> None:
    table = ONE_CELL.replace("search: {trials: 2}", "search: null")
    table += "train: {seeds: [0, 1]}\n"
    plan = planned(tmp_path, table)
    final = plan.cells[0].training.spec
    record = Record(make_run_directory(final, plan.storage)[1].record, tasks=5)
    for number in range(2):
        record.write(replace(make_trial(number, 5, 60.0), seed=number))
    plan.directory.mark_concluded(final.name)
    assert opened(planned(tmp_path, table)) == []
    more = planned(tmp_path, table.replace("[0, 1]", "[7, 1, 0]"))
    (left,) = estimate(more)
    assert left.seconds is not None and left.seconds > 0
    cell = ActiveCell(more, more.cells[0], print)
    with ExitStack() as locks:
        run = cell.open(locks)
        assert run is not None and not plan.directory.is_concluded(final.name)
        assert list(iter(run.next_trial, None)) == [(2, {})] and run.spec.seed_of(2) == 7
    assert cell.open(ExitStack()) is None


def of_two_trials(tmp_path: Path) -> tuple[CampaignPlan, SearchSpec, RunDirectory, list[TrialSummary]]:
    """Return a campaign of one cell, and its search with two trials. The second trial is the better one."""
    plan = planned(tmp_path, ONE_CELL)
    spec, searched = make_run_directory(plan.cells[0].search.spec, plan.storage)
    trials = [make_trial(number, 5, 60.0 + number, hyperparameters={"lr": 0.01 + 0.01 * number}) for number in range(2)]
    for trial in trials:
        Record(searched.record, tasks=5).write(trial)
    return plan, spec, searched, trials


@pytest.mark.parametrize("better", [False, True])
def test_a_cell_that_is_extended_trains_again_only_what_it_has_newly_chosen(better: bool, tmp_path: Path) -> None:
    """The earlier final run is left alone, and a kill after the extension changes nothing."""
    search, final = "t-digits-finetune", "t-digits-finetune-final"
    plan, spec, searched, trials = of_two_trials(tmp_path)
    conclude(spec, searched, trials)
    trained, there = make_run_directory(
        plan_final(plan.cells[0], plan.request, plan.opening, plan.gpus).spec, plan.storage
    )
    Record(there.record, tasks=5).write(make_trial(0, 5, 70.0))
    for name in (search, final):
        plan.directory.mark_concluded(name)
    extended = planned(tmp_path, ONE_CELL.replace("trials: 2", "trials: 3"))
    cell = ActiveCell(extended, extended.cells[0], print)
    assert (cell.state, cell.columns[0], list(cell.final)) == ("searching", "2/3", [])
    with ExitStack() as locks:
        assert cell.open(locks).spec.trials == 3 and not plan.directory.is_concluded(search)
    last = make_trial(2, 5, 99.0 if better else 1.0, hyperparameters={"lr": 0.07})
    Record(searched.record, tasks=5).write(last)
    conclude(extended.cells[0].search.spec, searched, [*trials, last])
    with ExitStack() as locks:
        run = cell.open(locks)
        assert (None if run is None else run.spec.name) == (f"{final}-1" if better else None)
    names = [each.final for each in read_cells(plan.directory).cells]
    assert names == [f"{final}-1" if better else final] and read_spec(there).fixed == trained.fixed
    after = planned(tmp_path, ONE_CELL.replace("trials: 2", "trials: 3")).cells[0]
    assert after.runs.final == names[0] and after.added == 0 and after.runs.search == search
    if better:  # and chooses anew once more
        best = load_best(searched.best_file)
        third = best.model_copy(update={"hyperparameters": {**best.hyperparameters, "lr": 0.09}})
        third.save(searched.best_file)
        again = plan_final(after, extended.request, extended.opening, extended.gpus)
        assert again.spec.name == f"{final}-2"


def test_a_re_evaluation_that_was_asked_for_by_hand_and_interrupted_goes_on_before_the_final_run(
    tmp_path: Path,
) -> None:
    plan, spec, searched, _ = of_two_trials(tmp_path)
    plan.directory.mark_concluded(spec.name)
    spec.model_copy(update={"reevaluate": Reevaluate(best=2, runs=1, start=True)}).save(searched)
    again = planned(tmp_path, ONE_CELL.replace("trials: 2", "trials: 2, reevaluate: 2, reevaluate_runs: 1"))
    with ExitStack() as locks:
        run = ActiveCell(again, again.cells[0], print).open(locks)
        assert run is not None and run.spec.name == spec.name
    assert not plan.directory.is_concluded(spec.name)  # if it is stopped now, it goes on


def test_a_choice_that_comes_back_has_the_final_run_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, spec, searched, _ = of_two_trials(tmp_path)
    first = plan_final(plan.cells[0], plan.request, plan.opening, plan.gpus).spec
    first = first.model_copy(update={"code_digests": {"m:C": "then"}})
    second = first.model_copy(update={"name": f"{first.name}-1", "fixed": {**first.fixed, "lr": 0.07}})
    trained = Record(make_run_directory(first, plan.storage)[1].record, tasks=5)
    for number, seed in enumerate(first.seeds):
        trained.write(replace(make_trial(number, 5, 70.0), seed=seed))
    make_run_directory(second, plan.storage)
    for run in (spec, first, second):
        plan.directory.mark_concluded(run.name)

    def with_second(trials: int) -> CampaignPlan:
        """The campaign, whose present final run is the second one."""
        later = plan.cells[0].runs.model_copy(update={"final": second.name})
        plan.saved_cells.with_cell(later).save(plan.directory)
        return planned(tmp_path, ONE_CELL.replace("trials: 2", f"trials: {trials}"))

    extended = with_second(3)
    cell = ActiveCell(extended, extended.cells[0], print)
    with ExitStack() as locks:
        assert cell.open(locks) is not None
        Record(searched.record, tasks=5).write(make_trial(2, 5, 1.0, hyperparameters={"lr": 0.05}))
        assert cell.open(locks) is None and cell.state == "done" and len(cell.final) == len(first.seeds)
    assert read_cells(plan.directory).cells[0].final == first.name
    known = with_second(3).cells[0]  # a driver that was killed in between
    assert (known.runs.final, known.next) == (first.name, "nothing")
    monkeypatch.setattr("tausearch.campaigns.cell_plans.digests_of", lambda *_, in_workers: {"m:C": "now"})
    assert with_second(3).cells[0].runs.final == f"{first.name}-2"


@pytest.mark.parametrize("with_file", [True, False])
def test_a_kill_between_record_and_best_file_does_not_change_what_is_trained(with_file: bool, tmp_path: Path) -> None:
    """The final run is opened before the thread that concludes the search has written the best file again."""
    plan, spec, searched, trials = of_two_trials(tmp_path)
    if with_file:
        conclude(spec, searched, trials[:1])
    again = planned(tmp_path, ONE_CELL)
    cell = ActiveCell(again, again.cells[0], print)
    with ExitStack() as locks:
        runs = [run for _ in range(2) if (run := cell.open(locks)) is not None]
        assert [run.spec.name for run in runs] == ["t-digits-finetune", "t-digits-finetune-final"]
        assert runs[1].spec.fixed["lr"] == 0.02


BEST = "search: {trials: 2, constraint: ['forgetting <= 1']}"
NO_TRIAL = "no trial finished its last task; the last one: not finite"
BROKEN = "the only finished trial does not keep val/forgetting <= 1; the nearest is trial 0 (70.00 %)"


@pytest.mark.parametrize(("forgetting", "why"), [(None, NO_TRIAL), (2.0, BROKEN), (1.0, None)])
def test_a_cell_whose_search_chose_nothing_cannot_be_trained(
    forgetting: float | None, why: str | None, tmp_path: Path
) -> None:
    plan = planned(tmp_path, TABLE.replace("search: {trials: 2}", BEST))
    assert opened(plan)[0] == "t-digits-finetune"
    directory = plan.cells[0].search.directory
    value, status = (None, "diverged") if forgetting is None else (70.0, "complete")
    finished = make_trial(0, 5, value, status=status, hyperparameters={"lr": 0.02})
    finished.rows[-1]["val/forgetting"] = forgetting or 0.0
    if forgetting is None:
        finished.error = "an earlier error"
    failed = make_trial(1, 0, status="diverged", error="not finite")
    for trial in (finished, failed):
        Record(directory.record).write(trial)
    plan.directory.mark_concluded("t-digits-finetune")
    said: list[str] = []
    names = opened(plan, said)
    if why is None:
        assert names == ["t-digits-finetune-final", "t-digits-ewc"] and said == []
    else:
        assert names == ["t-digits-ewc", "digits/finetune"]  # failed, and the other goes on
        (cell,) = read_campaign_status(plan.storage, plan.directory).failed_cells
        assert said == [f"digits/finetune: {cell.reason}"] and str(cell.reason).startswith(why)


@pytest.mark.parametrize("over", [True, False])
def test_a_run_that_is_not_over_is_opened_again(over: bool, tmp_path: Path) -> None:
    plan = planned(tmp_path)
    cell = ActiveCell(plan, plan.cells[0], lambda line: None)
    cell.on_concluded(cast(RunResult, SimpleNamespace(name="t", over=over)))
    assert plan.directory.is_concluded("t") == over


def test_a_search_that_an_error_has_ended_goes_on_before_its_final_run(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    queue = queue_of([ActiveCell(plan, each, lambda line: None) for each in plan.cells], plan)
    assert (run := queue.open_next()) is not None
    Record(run.directory.record, tasks=5).write(make_trial(0, 5, 70.0, hyperparameters={"lr": 0.02}))
    queue.close()  # as the driver does when an error ends it
    assert run.directory.best_file.exists() and not plan.directory.is_concluded(run.spec.name)
    assert opened(planned(tmp_path)) == ["t-digits-finetune", "t-digits-ewc"]


def test_the_plots_of_the_report_are_drawn_when_the_search_is_concluded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tausearch.campaigns.active_cell.read_status", lambda directory: directory.name)
    monkeypatch.setattr("tausearch.campaigns.active_cell.draw_search_plots", lambda status: f"plots of {status}")
    plan = planned(tmp_path)
    first, second = (ActiveCell(plan, each, lambda line: None) for each in plan.cells)
    first.on_concluded(cast(RunResult, SimpleNamespace(name=first.runs.search, over=False)))
    assert _plots_of_searches([first]) == {}  # a stopped campaign has no report
    for cell, name in ((first, first.runs.search), (second, second.runs.final)):
        cell.on_concluded(cast(RunResult, SimpleNamespace(name=name, over=True)))
    assert _plots_of_searches([first, second]) == {first.runs.search: f"plots of {first.runs.search}"}


def test_only_the_first_error_of_a_cell_is_said(tmp_path: Path) -> None:
    plan, said = planned(tmp_path), list[str]()
    cell = ActiveCell(plan, plan.cells[0], said.append)
    for text in ("first", "second"):
        cell.on_error(ValueError(text))
    assert (cell.error, said) == ("first", ["digits/finetune: first"]) and cell.open(ExitStack()) is None


def test_only_the_named_cell_gets_another_final_run(tmp_path: Path) -> None:
    plan = planned(tmp_path, TABLE + "cells: [{method: probe, search: null}, {method: joint, search: null}]\n")
    *others, last = plan.saved_cells.cells
    assert (others[-1].search, last.search) == (None, None)
    assert plan.saved_cells.with_cell(last.model_copy(update={"final": "f"})).cells[:-1] == tuple(others)


def test_both_runs_of_a_cell_belong_to_the_campaign_that_lists_them(tmp_path: Path) -> None:
    for name in ("t", "u"):
        storage = planned(tmp_path, TABLE.replace("campaign: t", f"campaign: {name}")).storage
    runs = ["t-digits-ewc", "t-digits-ewc-final", "u-digits-ewc", "u-digits-ewc-final"]
    storage.campaign("a").path.mkdir()
    storage.campaign("a").spec_file.write_text("{")  # it hides no other
    assert [campaign_of(storage, run) for run in runs] == ["t", "t", "u", "u"]
    assert campaign_of(storage, "t-digits-ewc-final-1") is None
    with pytest.raises(InputError, match=f"no campaign named 'x' in {tmp_path}; "):
        read_cells(storage.campaign("x"))


def test_a_cells_run_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(tmp_path)
    opened(plan)
    assert campaign_of(plan.storage, "t-digits-ewc") == "t" and campaign_of(plan.storage, "other") is None
    monkeypatch.setattr("sys.argv", ["tausearch", "runs", "rename", "t-digits-ewc", "mine", "--storage", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and "belongs to campaign 't'" in capsys.readouterr().err
