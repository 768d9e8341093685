"""What the display of a running campaign shows of each cell, and how long it says the rest takes."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from tausearch.campaigns import CampaignPlan
from tausearch.campaigns.active_cell import ActiveCell
from tausearch.campaigns.display import AROUND, CampaignDisplay
from tausearch.runs import AnySpec, Record, ReevaluationSpec, TrialSummary
from tausearch.runs.creation import make_run_directory
from tausearch.studies import FixedSearcher, unsearched_best_file
from tests.support.runs.trials import make_trial, run_of
from tests.tausearch.campaigns.test_queue import TABLE, planned


def shown(plan: CampaignPlan) -> tuple[CampaignDisplay, list[ActiveCell], io.StringIO]:
    """A display of the cells of a campaign, without a terminal, and its lines."""
    screen = io.StringIO()
    display = CampaignDisplay(screen)
    cells = [ActiveCell(plan, planned, display.say) for planned in plan.cells]
    display.show(cells)
    return display, cells, screen


def tell(display: CampaignDisplay, cell: ActiveCell, spec: AnySpec, *trials: TrialSummary) -> None:
    """Open a run of a cell, and change its trials one after another."""
    run = run_of(spec, FixedSearcher([]))
    (listener,) = display.listeners_for(cell, run)
    for trial in trials:
        run.trials.put(trial)
        listener.trial_changed(trial)


def assert_left(display: CampaignDisplay, share: float) -> None:
    """The time left is so many times the elapsed one, which grows while it is asked for."""
    before, left, after = display.elapsed, display.seconds_left(), display.elapsed
    assert left is not None and share * before <= left <= share * after


def test_the_display_says_how_far_each_cell_is(tmp_path: Path) -> None:
    plan = planned(tmp_path, TABLE.replace("trials: 2", "trials: 2, reevaluate: 1, reevaluate_runs: 2"))
    display, (first, second), screen = shown(plan)

    search, final = plan.cells[0].search.spec, plan.cells[0].training.spec
    tell(display, first, search, make_trial(0, 5, 70.0), make_trial(1, 2))
    assert (first.state, first.columns, first.tasks) == ("searching", ("1/2", "70.00", ""), (7, 45))
    tell(display, first, ReevaluationSpec.of(search), make_trial(0, 5, 1.0))
    assert (first.state, first.columns[0], first.tasks) == ("reevaluating", "1/2 and 1/4 again", (12, 45))
    tell(display, first, final, make_trial(0, 5, 60.0), make_trial(1, 5, 62.0))
    assert (first.state, second.state) == ("training", "waiting")
    assert first.columns[::2] == ("1/2 and 1/1 again", "2/3  61.00 ± 1.41")
    assert first.tasks == (22, 30)  # three re-evaluations were not needed
    assert_left(display, (75 - 22) / 22)
    line = "digits/finetune trial 0 complete: 70.00 % | search 1/2, best 70.00 | 0/2 cells done, 0 trials running"
    assert line in screen.getvalue() and "digits/finetune searching" not in screen.getvalue()
    tell(display, first, final, *(make_trial(number, 5, 60.0) for number in range(3)))
    assert first.state == "done"
    tell(display, second, ReevaluationSpec.of(plan.cells[1].search.spec), make_trial(0, 2))
    assert (second.state, [trial.number for trial in second.running]) == ("reevaluating", [0])


def test_trials_that_wait_for_their_processes_do_not_run_yet(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    display, (first, _), _ = shown(plan)
    run = run_of(plan.cells[0].search.spec, FixedSearcher([]))
    (listener,) = display.listeners_for(first, run)
    display.enter("starting the processes of trials")
    run.trials.put(make_trial(0, 0, status="running"))
    assert len(first.running) == 1 and "0/2 cells done, 0 trials running" in display.status_line()
    listener.trial_changed(make_trial(0, 0, status="running"))
    assert "0/2 cells done, 1 trial running" in display.status_line()


@pytest.mark.parametrize(("best", "most"), [("the start", 2), ("another", 4)])
def test_a_search_that_has_ended_says_how_many_run_again_at_most(
    best: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(tmp_path, TABLE.replace("trials: 2", "trials: 3, reevaluate: 1, reevaluate_runs: 2"))
    display, (first, _), _ = shown(plan)
    search, final = plan.cells[0].search.spec, plan.cells[0].training.spec
    start = replace(make_trial(0, 5, 70.0), hyperparameters=dict(search.start))
    other = replace(make_trial(1, 5, 80.0 if best == "another" else 60.0), hyperparameters={"lr": 9.0})
    tell(display, first, search, start, other)
    tell(display, first, ReevaluationSpec.of(search), make_trial(0, 5, 1.0))
    assert first.columns[0] == "2/3 and 1/4 again"  # a third trial may be the best
    tell(display, first, search, start, other, replace(other, number=2, value=50.0))
    assert first.columns[0] == f"3/3 and 1/{most} again"
    again = ReevaluationSpec.of(search)  # a third trial was a candidate while the search had fewer
    tell(display, first, again, make_trial(0, 5, 1.0), make_trial(again.number(2, 0), 5, 1.0))
    assert first.columns[0] == f"3/3 and 1/{most} again"
    assert first.tasks == (20, (3 + most + final.trials) * 5)
    tell(display, first, final, make_trial(0, 5, 60.0))
    before = (first.columns, first.tasks)
    monkeypatch.setattr("tausearch.campaigns.active_cell.reevaluation_of", lambda *_: pytest.fail("nothing changed"))
    assert (first.columns, first.tasks) == before


@pytest.mark.parametrize("cause", ["a seed diverged", "the search chose nothing"])
def test_the_display_says_at_once_that_a_cell_has_failed(cause: str, tmp_path: Path) -> None:
    plan = planned(tmp_path)
    display, (first, second), screen = shown(plan)
    if cause == "a seed diverged":
        final, known = plan.cells[0].training.spec, [make_trial(0, 1, status="diverged"), make_trial(1, 5, 60.0)]
        tell(display, first, final, *known, make_trial(2, 4))
        assert first.state == "training"  # as `campaign status` says: another seed runs
        tell(display, first, final, *known, make_trial(2, 5, 60.0))
        assert "digits/finetune seed 2 complete: 60.00 %" in screen.getvalue()
    else:
        tell(display, first, plan.cells[0].search.spec, *(make_trial(n, 1, status="diverged") for n in range(2)))
        first.on_error(ValueError("no trial finished"))
    assert [first.state, second.state] == ["failed", "waiting"]
    assert display.status_line().startswith("0/2 cells done, 1 failed, 0 trials running | ")
    done, total = first.tasks
    assert done == total == (15 if cause == "a seed diverged" else 10)  # a failed cell needs no more time
    assert_left(display, second.tasks[1] / done)


def test_a_cell_whose_search_chose_nothing_before_is_shown_as_failed(tmp_path: Path) -> None:
    search = planned(tmp_path).cells[0].search
    record = Record(make_run_directory(search.spec, search.storage)[1].record, tasks=5)
    for number in range(2):
        record.write(make_trial(number, 1, status="diverged"))
    _, (first, second), _ = shown(planned(tmp_path))
    assert (first.state, second.state) == ("failed", "waiting")


def test_a_campaign_that_goes_on_counts_earlier_trials_and_measures_its_own_speed(tmp_path: Path) -> None:
    begun = planned(tmp_path).cells[0]
    search, tuned = begun.search.spec, {"source": begun.search.spec.name, "tuned_on": "digits"}
    final = begun.training.spec.model_copy(update=tuned)
    runs = [make_run_directory(spec, begun.search.storage)[1] for spec in (search, final)]
    start = unsearched_best_file(search).hyperparameters
    searched = [make_trial(number, 5, 70.0 + 10 * number, hyperparameters=start) for number in range(2)]
    for run, trial in ((0, searched[0]), (1, make_trial(0, 5, 60.0)), (0, searched[1])):
        Record(runs[run].record, tasks=5).write(trial)
        plan = planned(tmp_path)
        assert bool(shown(plan)[1][0].columns[2]) == (trial.number == 1)  # seeds of an earlier choice do not count
    display, (first, _), screen = shown(plan)
    assert first.columns == ("2/2", "80.00", "1/3  60.00") and first.tasks == (15, 25)
    assert display.seconds_left() is None  # 15 tasks of 50 are done, none of them here
    tell(display, first, plan.cells[0].training.spec, make_trial(0, 5, 60.0), make_trial(1, 5, 0.0), make_trial(2, 1))
    assert first.columns[2] == "2/3  30.00 ± 42.43"  # an accuracy of 0 counts
    assert " seed 1 complete: 0.00 % | search 2/2, best 80.00 | final run 2/3  30.00 ± 42.43 | " in screen.getvalue()
    assert_left(display, 29 / 6)
    at_its_end = replace(make_trial(2, 5, 90.0, status="failed"), error="out of memory")
    tell(display, first, plan.cells[0].training.spec, make_trial(0, 5, 60.0), make_trial(1, 5, 0.0), at_its_end)
    assert " seed 2 failed: out of memory | " in screen.getvalue() and first.columns[2] == "3/3  30.00 ± 42.43"


def test_a_search_that_ends_early_has_no_more_trials(tmp_path: Path) -> None:
    plan = planned(tmp_path, TABLE.replace("trials: 2", "trials: 4, target: 60"))
    display, (first, _), _ = shown(plan)
    tell(display, first, plan.cells[0].search.spec, make_trial(0, 5, 70.0))
    assert first.columns[0] == "1/1"


def test_the_best_of_a_cell_keeps_the_bounds_of_its_search(tmp_path: Path) -> None:
    plan = planned(tmp_path, TABLE.replace("trials: 2", "trials: 2, constraint: ['forgetting <= 1']"))
    display, (first, _), _ = shown(plan)
    forgetful = make_trial(0, 5, 90.0)
    forgetful.rows[-1]["val/forgetting"] = 2.0
    tell(display, first, plan.cells[0].search.spec, forgetful, make_trial(1, 5, 70.0))
    assert first.columns[1] == "70.00"


def test_only_cells_with_running_trials_are_named_and_shown_where_room_is_short(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    display, (first, second), screen = shown(plan)
    tell(display, first, plan.cells[0].search.spec, make_trial(0, 5, 70.0))
    assert display.status_line().startswith("0/2 cells done, 0 trials running | ")
    tell(display, second, plan.cells[1].search.spec, make_trial(0, 1), make_trial(1, 0, status="diverged", error="why"))
    assert display.stage is None  # from the first trial on
    assert display.status_line().startswith("digits/ewc searching | 0/2 cells done, 1 trial running | ")
    assert "digits/ewc trial 1 diverged: why | search 1/2 | " in screen.getvalue()

    def rows(room: int) -> list[str]:
        display.console.height = AROUND + room
        return list(display.render().renderables[0].columns[0].cells)  # type: ignore[union-attr]

    assert (rows(2), rows(1)) == (["digits/finetune", "digits/ewc"], ["digits/ewc"])
    tell(display, first, plan.cells[0].search.spec, make_trial(0, 1), make_trial(1, 1))
    both = "digits/finetune searching, digits/ewc searching | 0/2 cells done, 3 trials running | "
    assert display.status_line().startswith(both) and rows(1) == ["digits/finetune"]
    display.show_stopping(lambda: "stopping on Ctrl-C")
    assert display.status_line().startswith("stopping on Ctrl-C | 0/2 cells done, ")


def test_the_time_left_counts_from_the_first_task_and_not_from_the_start_of_ray(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    display, (first, _), _ = shown(plan)
    trial = make_trial(0, 2)
    display.start -= 20 + trial.seconds  # Ray took 20 seconds
    tell(display, first, plan.cells[0].search.spec, make_trial(1, 0), trial, make_trial(1, 1))
    total = sum(cell.tasks[1] for cell in display.cells)
    assert trial.seconds > 0 and display.seconds_left() == pytest.approx(trial.seconds * (total - 3) / 3, rel=0.05)
