"""The display of a running campaign: its table, one line per cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.console import Group
from rich.table import Table
from rich.text import Text

from checked_input.names import counted
from tausearch.campaigns.active_cell import ActiveCell
from tausearch.execution import Run, RunSource
from tausearch.presentation import LiveDisplay
from tausearch.runs import TrialSummary
from tausearch.studies import TrialListener

AROUND = 6  # lines of a terminal that are not available to the table


class CampaignDisplay(LiveDisplay):
    """Shows the growing table of a campaign, the number of running trials, and the time left."""

    def __init__(self, screen: TextIO) -> None:
        super().__init__(screen)
        self.cells: Sequence[ActiveCell] = ()
        self._any_begun = False  # before it, trials wait for Ray and for their processes
        self._known = 0  # tasks that an earlier process finished say nothing of how fast this one is
        self._began: float | None = None  # seconds after which the first trial computed; before it Ray started

    def show(self, cells: Sequence[ActiveCell]) -> None:
        """Show these cells from now on."""
        self.cells = cells
        self._known = self._tasks()[0]

    def listeners_for(self, cell: RunSource, run: Run) -> Sequence[TrialListener]:
        """Show the trials of a run that is opened; returns the listener of its trials."""
        assert isinstance(cell, ActiveCell)
        cell.attach(run)
        return [_RunListener(self, cell, run)]

    def trial_ended(self, cell: ActiveCell, run: Run, trial: TrialSummary) -> None:
        """Print that a trial has ended, if there is no terminal."""
        reached = run.spec.reached(trial.tasks_done)
        value = trial.error or (f"{trial.value:.2f} %" if trial.value is not None else reached)
        searched, best, final = cell.columns
        progress = (
            f"search {searched}" + (f", best {best}" if best else "") + (f" | final run {final}" if final else "")
        )
        ended = f"{cell.runs.title} {run.spec.label(trial.number)} {trial.status}: {value}"
        self.say_plainly(" | ".join([ended, progress, self._counts(), self.times()]))

    def status_line(self) -> str:
        """Return the plain line that names the running cells."""
        under_way = [f"{cell.runs.title} {cell.state}" for cell in self.cells if cell.running]
        return " | ".join(filter(None, [self.phase or ", ".join(under_way), self._counts(), self.times()]))

    def render(self) -> Group:
        """Return the table for a terminal; if it is too long, the running cells only."""
        table = Table(box=None, pad_edge=False)
        for column in ("cell", "state", "search", "best, val %", "final run, test %"):
            table.add_column(column, no_wrap=True)
        room = self.console.height - AROUND
        shown = self.cells if len(self.cells) <= room else [cell for cell in self.cells if cell.running][:room]
        for cell in shown:
            style = {"done": "green", "failed": "red", "waiting": "dim"}.get(cell.state, "bold")
            table.add_row(cell.runs.title, cell.state, *cell.columns, style=style)
        phase = "" if self.phase is None else f"{self.phase}   "
        return Group(table, Text(f"{phase}{self._counts()}   {self.times()}"))

    def seconds_left(self) -> float | None:
        """Estimate the time left from the tasks that this process has finished; None before the first."""
        done, total = self._tasks()
        here = done - self._known
        return None if here <= 0 else (self.elapsed - (self._began or 0.0)) * (total - done) / here

    def task_ended(self, trial: TrialSummary) -> None:
        """Note that trials run, and when the first one began to compute, once it has finished a task."""
        self._any_begun = True
        if self._began is None and trial.rows:
            self._began = max(0.0, self.elapsed - trial.seconds)

    def _tasks(self) -> tuple[int, int]:
        both = [cell.tasks for cell in self.cells]
        return sum(done for done, _ in both), sum(total for _, total in both)

    def _counts(self) -> str:
        states = [cell.state for cell in self.cells]
        running = sum(len(cell.running) for cell in self.cells) if self._any_begun else 0
        failed = f", {states.count('failed')} failed" if "failed" in states else ""
        return (
            f"{states.count('done')}/{counted(len(states), 'cell')} done{failed}, {counted(running, 'trial')} running"
        )


@dataclass
class _RunListener:
    """A `TrialListener` that passes changes of one run's trials to the display."""

    display: CampaignDisplay
    cell: ActiveCell
    run: Run

    def trial_changed(self, trial: TrialSummary) -> None:
        """Print a line if the trial has ended."""
        self.display.stage = None
        self.display.task_ended(trial)
        if trial.status != "running":
            self.display.trial_ended(self.cell, self.run, trial)
