"""The progress display: what is said while nothing has begun, and the time left of a run that is continued."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.control import Control
from rich.table import Table

from tausearch.campaigns.display import CampaignDisplay
from tausearch.presentation import ProgressDisplay, console, print_notices
from tausearch.presentation.terminal.text import SafeConsole
from tausearch.runs import Constraint, Objective, Reevaluate, ReevaluationSpec, SearchSpec, TrialTable, combine_parts
from tests.support.runs.trials import final_spec, make_trial, tell
from tests.tausearch.several.made import part, parts, several_spec
from trainables.task_names import NamedTask


@pytest.fixture
def display(spec: SearchSpec) -> ProgressDisplay:
    return ProgressDisplay(spec, TrialTable(), io.StringIO())


def test_nothing_is_known_of_the_time_left_before_the_first_task(display: ProgressDisplay) -> None:
    assert display.status_line().endswith(" starting Ray | 0:00 elapsed")
    tell(display, make_trial(0, tasks=0))
    assert display.seconds_left() is None and "starting Ray" not in display.status_line()


def test_trials_that_were_known_say_nothing_of_the_time_left(spec: SearchSpec) -> None:
    known = TrialTable([make_trial(0, value=70.0), make_trial(1, tasks=1)])
    display = ProgressDisplay(spec, known, io.StringIO())
    display.start -= 100
    assert display.seconds_left() is None and "starting Ray" in display.status_line()
    assert f"[1/{spec.trials}] starting Ray |" in display.status_line()  # trial 1 does not run yet
    assert display._bar.tasks[0].completed == 1
    tell(display, make_trial(1, tasks=1))
    display.start -= 60
    tell(display, make_trial(1, tasks=2))
    left = spec.trials * spec.steps - spec.steps - 2
    assert display.seconds_left() == pytest.approx(60 * left, rel=0.01)  # one task in a minute, without Ray's start
    assert "trial 1: 2/" in display.status_line()
    display.console.file.flush()
    assert "trial 0 complete" not in display.console.file.getvalue()  # type: ignore[attr-defined]


def test_the_tasks_that_a_pruned_trial_skips_are_not_left_to_do(display: ProgressDisplay) -> None:
    tell(display, make_trial(0, tasks=0))
    display.start -= 60
    tell(display, make_trial(0, tasks=1, status="pruned"))
    tell(display, make_trial(1, tasks=1))
    assert display.seconds_left() == pytest.approx(60 * (12 - 4) / 4, rel=0.01)  # of four trials with three tasks


@pytest.mark.parametrize(("tasks", "reached"), [(0, "in the first task"), (2, "after task 2: c, d")])
def test_a_trial_without_a_value_says_how_far_it_came(spec: SearchSpec, tasks: int, reached: str) -> None:
    """A campaign's display says it in the same words; a trial may diverge before its first task ends."""
    named = spec.model_copy(update={"tasks": tuple(NamedTask((a, b)) for a, b in ("ab", "cd", "ef"))})
    display = ProgressDisplay(named, TrialTable(), io.StringIO())
    ended = replace(make_trial(0, tasks=tasks, status="diverged"), value=None)
    tell(display, ended)
    assert f"trial 0 diverged: {reached} |" in printed(display)
    campaign = CampaignDisplay(io.StringIO())
    cell = SimpleNamespace(columns=("1/4", "", ""), runs=SimpleNamespace(title="digits/ita"))
    campaign.trial_ended(cell, SimpleNamespace(spec=named), ended)  # type: ignore[arg-type]
    assert f"digits/ita trial 0 diverged: {reached} |" in campaign.console.file.getvalue()  # type: ignore[attr-defined]


def test_the_best_and_the_mean_so_far_are_said(spec: SearchSpec) -> None:
    display = ProgressDisplay(spec, TrialTable(), io.StringIO())
    for number, value in enumerate((70.0, 80.0, 75.0)):
        tell(display, make_trial(number, value=value))
    assert "best so far 80.00 % (trial 1)" in display.status_line()
    lines = printed(display).splitlines()
    assert lines[0].startswith("[1/4] trial 0 complete: 70.00 % | alpha=1 lr=0.01 | best so far 70.00 % (trial 0) | ")
    bound = Constraint(metric="val/final_accuracy", relation="<=", bound=75)
    display.show_run(spec.model_copy(update={"constraints": (bound,)}), display.trials, lambda trial: "")
    assert "best so far 75.00 % (trial 2)" in display.status_line()
    aim = Objective(metric="val/forgetting", direction="minimize")
    display.show_run(spec.model_copy(update={"objectives": (aim,)}), display.trials, lambda trial: "")
    assert "best so far forgetting 1.00 points (trial " in display.status_line()
    final = ProgressDisplay(final_spec(spec, seeds=(5, 6, 7), trials=3), TrialTable(), io.StringIO())
    for number, value in enumerate((0.0, 81.0)):
        tell(final, replace(make_trial(number, value=value), seed=5 + number))
    tell(final, replace(make_trial(2, value=10.0, status="failed"), seed=7, error="out of memory"))  # at its end
    assert "mean so far 40.50 %" in final.status_line()
    assert "seed 7 failed: out of memory | mean so far" in printed(final).replace("|  |", "|")


def test_fresh_runs_are_said_in_the_objectives_and_those_of_former_candidates_count(spec: SearchSpec) -> None:
    aims = (Objective(metric="val/forgetting", direction="minimize"),)
    search = spec.model_copy(update={"objectives": aims, "reevaluate": Reevaluate(best=1, runs=1)})
    again, former = ReevaluationSpec.of(search), make_trial(0, value=70.0)
    former.rows[-1]["val/forgetting"] = 4.0
    display = ProgressDisplay(again, TrialTable([former]), io.StringIO())
    fresh = make_trial(again.number(1, 0), value=80.0)
    fresh.rows[-1]["val/forgetting"] = 3.0
    tell(display, fresh)
    line = printed(display).splitlines()[0]
    assert line.startswith("[2/2] re-evaluation of trial 1, seed 1 complete: forgetting 3.00 points | ")
    assert "mean of all fresh runs forgetting 3.50 points" in line and line.endswith("about 0:00 left")


def test_stopping_goes_before_what_is_being_done(display: ProgressDisplay) -> None:
    display.enter("writing results")
    display.show_stopping(lambda: "stopping on Ctrl-C")
    assert "stopping on Ctrl-C" in display.status_line() and "writing" not in display.status_line()


def test_another_run_is_shown_with_a_speed_of_its_own(spec: SearchSpec, display: ProgressDisplay) -> None:
    tell(display, make_trial(0, tasks=0))
    display.start -= 60
    tell(display, make_trial(0, value=70.0))
    assert display.seconds_left() == pytest.approx(60 * 9 / 3, rel=0.01)
    again = TrialTable([make_trial(0, tasks=1)])
    display.show_run(spec.model_copy(update={"trials": 2}), again, lambda trial: "")
    assert display.seconds_left() is None
    display._turned -= 10
    tell(display, make_trial(0, tasks=2))
    assert display.seconds_left() == pytest.approx(10 * 4, rel=0.05) and "[0/2] trial 0: 2/3" in display.status_line()


def printed(display: ProgressDisplay) -> str:
    return display.console.file.getvalue()  # type: ignore[attr-defined]


def test_what_is_done_before_the_first_trial_and_after_the_last_is_said(display: ProgressDisplay) -> None:
    display.enter("joining the Ray that runs at head:6379")
    assert printed(display) == "joining the Ray that runs at head:6379\n"
    assert "joining the Ray that runs at head:6379" in display.status_line()
    tell(display, make_trial(0, tasks=1))
    assert "joining" not in display.status_line() and "best so far none" in display.status_line()
    display.enter("writing results")
    assert "writing results" in display.status_line()


def test_that_it_is_being_stopped_is_said_at_once_and_once(spec: SearchSpec) -> None:
    why: list[str] = []
    screen = io.StringIO()
    with ProgressDisplay(spec, TrialTable(), screen) as display:
        tell(display, make_trial(0, tasks=1))
        display.show_stopping(lambda: why[0] if why else None)
        assert "stopping" not in display.status_line()
        why.append("stopping on Ctrl-C")
        assert "stopping on Ctrl-C" in display.status_line()
        asked = time.monotonic()
        while "stopping" not in screen.getvalue():
            assert time.monotonic() - asked < 60
            time.sleep(0.05)
        time.sleep(1.2)  # it is looked at twice a second
    assert screen.getvalue().count("stopping on Ctrl-C") == 1


def test_a_running_trial_shows_its_epoch(spec: SearchSpec) -> None:
    display = ProgressDisplay(spec, TrialTable(), io.StringIO(), lambda trial: "epoch 7/50" if trial.tasks_done else "")
    tell(display, make_trial(0, tasks=1))
    tell(display, make_trial(1, tasks=0))
    assert "trial 0: 1/3 tasks and epoch 7/50, trial 1: 0/3 tasks |" in display.status_line()
    display.console.print(display.render())
    assert "■□□ epoch 7/50 90.0 % alpha=1" in " ".join(printed(display).split())


def test_columns_have_heads_once_there_is_a_trial(display: ProgressDisplay) -> None:
    display.console.print(display.render())
    assert "hyperparameters" not in printed(display)
    tell(display, make_trial(0, tasks=1))
    display.console.print(display.render())
    assert "hyperparameters" in printed(display)


@pytest.mark.parametrize(("steps", "shown"), [(3, "1/3 tasks and epoch 7/50 of c, d"), (1, "0/1 task and epoch 7/50")])
def test_an_epoch_is_of_the_task_that_is_being_learned_unless_all_are_at_once(
    spec: SearchSpec, steps: int, shown: str
) -> None:
    named = spec.model_copy(update={"steps": steps, "tasks": tuple(NamedTask((a, b)) for a, b in ("ab", "cd", "ef"))})
    display = ProgressDisplay(named, TrialTable(), io.StringIO(), lambda trial: "epoch 7/50")
    tell(display, make_trial(0, tasks=int(steps > 1)))
    assert f"trial 0: {shown} |" in display.status_line()


def test_a_running_trial_on_several_benchmarks_says_how_far_each_is_that_runs() -> None:
    spec = several_spec()
    running = part(spec, 0, 1, None, rows=[{"task": 1.0, "val/average_accuracy": 60.0}])
    display = ProgressDisplay(spec, TrialTable(), io.StringIO())
    for trial in combine_parts(parts(spec), [part(spec, 0, 0, 90.0), running]):
        tell(display, trial)
    assert "trial 0: 1/2 benchmarks and glyphs 1/2 |" in display.status_line()


def test_a_line_that_was_said_is_not_repeated_at_once(display: ProgressDisplay) -> None:
    display._last_line -= 100
    display.say_plainly("a line")
    assert display._last_line == pytest.approx(time.monotonic(), abs=50)
    display.console = SafeConsole(file=io.StringIO(), force_terminal=True)
    display.say_plainly("a line")
    assert printed(display) == ""  # a terminal shows the display in its place


def test_what_a_name_has_for_the_terminal_does_not_reach_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Colours of our own do, and a line break is one."""
    table = Table("class")
    table.add_row("a\x1b[31m\x9b2J")
    console().print(table)
    console().print("x\x1b]0;title\nz", style="red")
    console().print("run[bold] a[/]")
    print_notices("broken \x1b[2J")
    out, err = capsys.readouterr()
    assert "│ a[31m2J │" in out and "x]0;title\nz\nrun[bold] a[/]\n" in out and err == "tausearch: broken ?[2J\n"
    assert not any(sign in out for sign in "\x1b\x9b")
    file = io.StringIO()
    SafeConsole(file=file, force_terminal=True, color_system="standard", highlight=False).print(
        "n\x1bm:cat: [/a]", style="red"
    )
    assert file.getvalue() == "\x1b[31mnm:cat: [/a]\x1b[0m\n"
    screen = SafeConsole(file=io.StringIO(), force_terminal=True, legacy_windows=False)
    screen.print(Control.home(), end="")
    assert screen.file.getvalue() == "\x1b[H"  # type: ignore[attr-defined]
