"""Which runs a campaign opens, when it is given again, and what its display shows of them."""

from __future__ import annotations

import io
import shutil
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tausearch.campaigns import CampaignPlan, CampaignRequest, campaign_of, plan_campaign, read_standing
from tausearch.campaigns.campaign_cell import CampaignCell
from tausearch.campaigns.display import CampaignDisplay
from tausearch.campaigns.driver import _driver
from tausearch.cli import main
from tausearch.cluster import resources
from tausearch.execution import Interrupt, RunQueue, StorageWatch
from tausearch.runs import AnySpec, Record, ReevaluationSpec, Resources, RunResult, TrialSummary
from tausearch.studies import FixedSearcher, start_of
from tests.support.runs.trials import make_trial, run_of
from trainables.trial import Trial

TABLE = "campaign: t\nbenchmarks: [digits]\nmethods: [finetune, ewc]\nsearch: {trials: 2}\n"


def planned(tmp_path: Path, table: str = TABLE) -> CampaignPlan:
    (tmp_path / "t.yaml").write_text(table)
    plan = plan_campaign(CampaignRequest(tmp_path / "t.yaml", storage=tmp_path))
    plan.directory.path.mkdir(parents=True, exist_ok=True)
    plan.kept.save(plan.directory)
    return plan


def opened(plan: CampaignPlan, said: list[str] | None = None) -> list[str]:
    """The names of the runs that are opened of all cells, one after another, none of which is run; then what failed."""
    said = [] if said is None else said
    cells = [CampaignCell(plan, planned, said.append) for planned in plan.cells]
    queue = RunQueue(cells, Interrupt(), StorageWatch(plan.directory), lambda line: None, lambda cell, run: [])
    names = []
    try:
        while (run := queue.open_next()) is not None:
            names.append(run.spec.name)
    finally:
        queue.release()
    return [*names, *(cell.runs.title for cell in cells if cell.error is not None)]


def test_a_run_that_was_seen_to_its_end_is_not_opened_and_a_deleted_one_is_made_again(tmp_path: Path) -> None:
    first, second = "t-digits-finetune", "t-digits-ewc"
    assert opened(planned(tmp_path)) == [first, second]
    plan = planned(tmp_path)
    for name in (first, f"{first}-final"):
        plan.directory.conclude(name)
    shutil.copytree(tmp_path / first, tmp_path / f"{first}-final")
    assert opened(plan) == [second]
    shutil.rmtree(tmp_path / first)
    assert opened(plan) == [first, second]


BEST = "search: {trials: 2, constraint: ['forgetting <= 1']}"
NO_TRIAL = "no trial finished its last task; the last one: not finite"
BROKEN = "none of 1 finished trials keeps val/forgetting <= 1; the nearest is trial 0 (70.00 %)"


@pytest.mark.parametrize(("forgetting", "why"), [(None, NO_TRIAL), (2.0, BROKEN), (1.0, None)])
def test_a_cell_whose_search_chose_nothing_cannot_be_trained(
    forgetting: float | None, why: str | None, tmp_path: Path
) -> None:
    plan = planned(tmp_path, TABLE.replace("search: {trials: 2}", BEST))
    assert opened(plan)[0] == "t-digits-finetune"
    directory = plan.cells[0].search.directory
    finished = make_trial(0, 5, None if forgetting is None else 70.0, status="complete" if forgetting else "diverged")
    finished.rows[-1]["val/forgetting"] = forgetting or 0.0
    if forgetting is None:
        finished.error = "an earlier error"
    failed = make_trial(1, 0, status="diverged", error="not finite")
    for trial in (finished, failed):
        Record(directory.record).write(trial)
    if why is None:
        start_of(plan.cells[0].search.spec).save(directory.best_file)
    plan.directory.conclude("t-digits-finetune")
    said: list[str] = []
    names = opened(plan, said)
    if why is None:
        assert names == ["t-digits-finetune-final", "t-digits-ewc"] and said == []
    else:
        assert names == ["t-digits-ewc", "digits/finetune"]  # failed, and the other goes on
        (cell,) = read_standing(plan.storage, plan.directory).failed
        assert said == [f"digits/finetune: {cell.reason}"] and str(cell.reason).startswith(why)


@pytest.mark.parametrize(
    ("number", "out_of_time", "concluded"), [(None, False, True), (2, False, False), (None, True, False)]
)
def test_a_run_that_was_stopped_is_opened_again(
    number: int | None, out_of_time: bool, concluded: bool, tmp_path: Path
) -> None:
    plan = planned(tmp_path)
    cell = CampaignCell(plan, plan.cells[0], lambda line: None)
    cell.concluded(cast(RunResult, SimpleNamespace(name="t", signal=number, out_of_time=out_of_time)))
    assert plan.directory.is_concluded("t") == concluded


def test_only_the_first_error_of_a_cell_is_said(tmp_path: Path) -> None:
    plan, said = planned(tmp_path), list[str]()
    cell = CampaignCell(plan, plan.cells[0], said.append)
    for text in ("first", "second"):
        cell.failed(ValueError(text))
    assert (cell.error, said) == ("first", ["digits/finetune: first"]) and cell.open(ExitStack()) is None


def test_a_driver_needs_the_resources_of_its_largest_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "local_cpus", lambda: 8)
    monkeypatch.setattr(resources, "require_gpu", lambda wish: None)
    own = "cells: [{method: ewc, search: {cpus_per_trial: 3}, train: {gpus_per_trial: 0.5}}]\n"
    driver = _driver(planned(tmp_path, TABLE + own), Trial)
    assert driver.resources == Resources(cpus_per_trial=3, gpus_per_trial=0.5)


def test_a_cells_run_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(tmp_path)
    opened(plan)
    assert campaign_of(plan.storage, "t-digits-ewc") == "t" and campaign_of(plan.storage, "other") is None
    monkeypatch.setattr("sys.argv", ["tausearch", "rename", "t-digits-ewc", "mine", "--storage", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and "belongs to campaign 't'" in capsys.readouterr().err


def assert_left(display: CampaignDisplay, share: float) -> None:
    """The time left is so many times the elapsed one, which grows while it is asked for."""
    before, left, after = display.elapsed, display.seconds_left(), display.elapsed
    assert left is not None and share * before <= left <= share * after


def test_the_display_says_how_far_each_cell_is(tmp_path: Path) -> None:
    plan = planned(tmp_path, TABLE.replace("trials: 2", "trials: 2, reevaluate: 1, reevaluate_runs: 2"))
    screen = io.StringIO()
    display = CampaignDisplay(screen)
    first, second = cells = [CampaignCell(plan, planned, display.say) for planned in plan.cells]
    display.show(cells)

    def tell(spec: AnySpec, *trials: TrialSummary) -> None:
        run = run_of(spec, FixedSearcher([]))
        (listener,) = display.follow(first, run)
        for trial in trials:
            run.trials.put(trial)
            listener.trial_changed(trial)

    search, final = plan.cells[0].search.spec, plan.cells[0].training.spec
    tell(search, make_trial(0, 5, 70.0), make_trial(1, 2))
    assert (first.state, first.columns, first.tasks) == ("searching", ("1/2", "70.00", ""), (7, 35))
    tell(ReevaluationSpec.of(search), make_trial(0, 5, 1.0))
    assert (first.state, first.columns[0], first.tasks) == ("reevaluating", "1/2 and 1/2 again", (12, 35))
    tell(final, make_trial(0, 5, 60.0), make_trial(1, 5, 62.0))
    assert (first.state, first.columns[2]) == ("training", "2/3  61.00 ± 1.41") and second.state == "waiting"
    assert first.tasks == (22, 30)  # one re-evaluation was eliminated
    assert_left(display, (65 - 22) / 22)
    line = "digits/finetune trial 0 complete: 70.00 % | search 1/2, best 70.00 | 0/2 cells done, 0 trials running"
    assert line in screen.getvalue() and "digits/finetune searching" not in screen.getvalue()
    tell(final, *(make_trial(number, 5, 60.0) for number in range(3)))
    assert first.state == "done"


@pytest.mark.parametrize("cause", ["a seed diverged", "the search chose nothing"])
def test_the_display_says_at_once_that_a_cell_has_failed(cause: str, tmp_path: Path) -> None:
    plan = planned(tmp_path)
    screen = io.StringIO()
    display = CampaignDisplay(screen)
    first, second = cells = [CampaignCell(plan, planned, display.say) for planned in plan.cells]
    display.show(cells)
    if cause == "a seed diverged":
        run = run_of(plan.cells[0].training.spec, FixedSearcher([]))
        (listener,) = display.follow(first, run)
        for trial in (make_trial(0, 1, status="diverged"), make_trial(1, 5, 60.0), make_trial(2, 4)):
            run.trials.put(trial)
        assert first.state == "training"  # as `campaign status` says: another seed runs
        run.trials.put(make_trial(2, 5, 60.0))
        listener.trial_changed(make_trial(2, 5, 60.0))
        assert "digits/finetune seed 2 complete: 60.00 %" in screen.getvalue()
    else:
        run = run_of(plan.cells[0].search.spec, FixedSearcher([]))
        display.follow(first, run)
        for number in range(2):
            run.trials.put(make_trial(number, 1, status="diverged"))
        first.failed(ValueError("no trial finished"))
    assert [cell.state for cell in cells] == ["failed", "waiting"]
    assert " | 0/2 cells done, 1 failed, 0 trials running | " in display.standing_line()
    done, total = first.tasks
    assert done == total == (15 if cause == "a seed diverged" else 10)  # a failed cell needs no more time
    assert_left(display, second.tasks[1] / done)
