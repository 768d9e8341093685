"""The display of a running campaign: its table, one line per cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tausearch.campaigns.cell_runs import CampaignCell
from tausearch.campaigns.plans import CampaignPlan, PlannedCell
from tausearch.execution import Cell, Listener, Run
from tausearch.presentation import LiveDisplay, clock, counted
from tausearch.runs import Score, TrialSummary, TrialTable, all_ended, best_trial

AROUND = 6  # lines of a terminal that are not available to the table


@dataclass
class _Shown:
    """A cell on the screen, with the current trials of its runs."""

    cell: PlannedCell
    search: TrialTable
    reevaluation: TrialTable
    final: TrialTable
    failed: bool

    @property
    def searched(self) -> bool:
        return self.cell.cell.search is not None

    @property
    def done(self) -> bool:
        return all_ended(list(self.final), self.cell.runs.seeds)

    @property
    def running(self) -> list[TrialSummary]:
        return [trial for table in self.tables for trial in table if trial.status == "running"]

    @property
    def tables(self) -> tuple[TrialTable, ...]:
        return self.search, self.reevaluation, self.final

    @property
    def tasks(self) -> tuple[int, int]:
        """Number of finished tasks, and of all tasks."""
        runs, steps = self.cell.runs, self.cell.runs.steps
        done = sum(_tasks(trial, steps) for table in self.tables for trial in table)
        eliminated = runs.reevaluations - len(list(self.reevaluation)) if list(self.final) else 0
        return done, runs.tasks - max(0, eliminated) * steps

    @property
    def columns(self) -> tuple[str, str, str]:
        """Progress of the search, its best accuracy, and progress of the final run."""
        best = best_trial(self.search, self.cell.search.spec.constraints)
        searched = f"{self.search.ended}/{self.cell.runs.trials}" if self.searched else "not searched"
        if list(self.reevaluation):
            searched += f" and {self.reevaluation.ended}/{self.cell.runs.reevaluations} again"
        values = [trial.value for trial in self.final if trial.value is not None]
        final = f"{self.final.ended}/{self.cell.runs.seeds}"
        if values:
            final += f"  {Score.of(values).text()}"
        return searched, "" if best is None else f"{best.value:.2f}", final if list(self.final) else ""

    @property
    def state(self) -> str:
        if self.failed:
            return "failed"
        if self.done:
            return "done"
        if list(self.final):
            return "training"
        return "reevaluating" if list(self.reevaluation) else "searching" if list(self.search) else "waiting"


class CampaignDisplay(LiveDisplay):
    """Shows the growing table of a campaign, the number of running trials, and the time left.

    Args:
        plan: What is done; trials that an earlier process ran say nothing of how fast this one is.
        screen: The stream that a person looks at.
    """

    def __init__(self, plan: CampaignPlan, screen: TextIO) -> None:
        super().__init__(screen)
        self._cells = {each.runs.title: _shown(each) for each in plan.cells}
        self._known = self._tasks()[0]

    def follow(self, cell: Cell, run: Run) -> Sequence[Listener]:
        """Show the trials of a run that is opened; returns the listener of its trials."""
        assert isinstance(cell, CampaignCell)
        shown = self._cells[cell.title]
        if run.spec.role == "trial":
            shown.search = run.trials
        elif run.spec.role == "reevaluation":
            shown.reevaluation = run.trials
        else:
            shown.final = run.trials
        return [_Told(self, shown, run)]

    def trial_ended(self, shown: _Shown, run: Run, trial: TrialSummary) -> None:
        """Print that a trial has ended, if there is no terminal."""
        value = f"{trial.value:.2f} %" if trial.value is not None else (trial.error or f"after task {trial.tasks_done}")
        what = f"{shown.cell.runs.title} {run.spec.label(trial.number)} {trial.status}"
        self.say_plainly(f"{what}: {value} | {self._standing(shown)}")

    def standing_line(self) -> str:
        """Return the plain line that names the running cells."""
        under_way = [f"{each.cell.runs.title} {each.state}" for each in self._cells.values() if each.running]
        return " | ".join([self.phase or ", ".join(under_way), self._counts(), self._times()])

    def render(self) -> Group:
        """Return the table for a terminal; if it is too long, the running cells only."""
        table = Table(box=None, pad_edge=False)
        for column in ("cell", "state", "search", "best, val %", "final run, test %"):
            table.add_column(column, no_wrap=True)
        for each in self._fitting():
            style = {"done": "green", "failed": "red", "waiting": "dim"}.get(each.state, "bold")
            table.add_row(each.cell.runs.title, each.state, *each.columns, style=style)
        phase = "" if self.phase is None else f"{self.phase}   "
        return Group(table, Text(f"{phase}{self._counts()}   {self._times()}"))

    def seconds_left(self) -> float | None:
        """Estimate the time left from the tasks that this process has finished; None before the first."""
        done, total = self._tasks()
        here = done - self._known
        return None if here <= 0 else self.elapsed * (total - done) / here

    def _fitting(self) -> list[_Shown]:
        cells = list(self._cells.values())
        room = self.console.height - AROUND
        return cells if len(cells) <= room else [each for each in cells if each.running][:room]

    def _tasks(self) -> tuple[int, int]:
        both = [each.tasks for each in self._cells.values() if not each.failed]
        return sum(done for done, _ in both), sum(total for _, total in both)

    def _standing(self, shown: _Shown) -> str:
        searched, best, final = shown.columns
        parts = [f"search {searched}" + (f", best {best}" if best else ""), f"final run {final}" if final else ""]
        return " | ".join([*filter(None, parts), self._counts(), self._times()])

    def _counts(self) -> str:
        states = [each.state for each in self._cells.values()]
        running = sum(len(each.running) for each in self._cells.values())
        failed = f", {states.count('failed')} failed" if "failed" in states else ""
        return f"{states.count('done')}/{len(states)} cells done{failed}, {counted(running, 'trial')} running"

    def _times(self) -> str:
        left = self.seconds_left()
        return f"{clock(self.elapsed)} elapsed, about {'?' if left is None else clock(left)} left"


class _Told:
    """A `Listener` that passes changes of one run's trials to the display."""

    def __init__(self, display: CampaignDisplay, shown: _Shown, run: Run) -> None:
        self.display = display
        self.shown = shown
        self.run = run

    def trial_changed(self, trial: TrialSummary) -> None:
        """Print a line if the trial has ended."""
        self.display.stage = None
        if trial.status != "running":
            self.display.trial_ended(self.shown, self.run, trial)


def _shown(cell: PlannedCell) -> _Shown:
    standing = cell.standing
    search, final = (
        TrialTable() if each is None else TrialTable(each.trials) for each in (standing.search, standing.final)
    )
    known = None if standing.search is None else standing.search.reevaluation
    reevaluation = TrialTable(() if known is None else known.runs)
    return _Shown(cell, search, reevaluation, final, standing.state == "failed")


def _tasks(trial: TrialSummary, steps: int) -> int:
    """Return the number of tasks that a trial needs no more: all tasks once it has ended, whatever its status."""
    return trial.tasks_done if trial.status in ("running", "pending") else steps
