"""What a person sees while a run is under way: a live display in a terminal, plain lines elsewhere."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TextIO

from rich.console import Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from checked_input.names import counted
from tausearch.presentation.terminal.live import LiveDisplay
from tausearch.presentation.terminal.text import brief
from tausearch.runs import (
    Aim,
    MultiTrial,
    ReevaluationSpec,
    RunSpec,
    SearchSpec,
    TrialSummary,
    TrialTable,
    best_trial,
    parts_of,
    planned_trials,
)


class ProgressDisplay(LiveDisplay):
    """Shows how many trials are done, the tasks done in each running trial, the best so far, and the time left.

    Args:
        spec: The specification of the run.
        trials: All trials of the run. Trials of an earlier process say nothing about the speed of this one.
        screen: The stream that a person looks at.
        epochs: Function from a trial to its epoch in its task, as text; empty if unknown.
    """

    def __init__(
        self,
        spec: RunSpec,
        trials: TrialTable,
        screen: TextIO,
        epochs: Callable[[TrialSummary], str] = lambda trial: "",
    ) -> None:
        super().__init__(screen)
        self._begun = False
        self._bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=self.console)
        self._bar_task = self._bar.add_task("trials")
        self.show_run(spec, trials, epochs)

    def show_run(self, spec: RunSpec, trials: TrialTable, epochs: Callable[[TrialSummary], str]) -> None:
        """Show another run from now on, such as the re-evaluation of a search."""
        self._epochs = epochs
        self.spec = spec
        self.trials = trials
        self._tasks_known, self._turned = self._tasks_done(), self.elapsed
        self._bar.update(self._bar_task, description=f"{spec.role}s", total=self._planned, completed=trials.n_ended)

    def trial_changed(self, trial: TrialSummary) -> None:
        """Show that a trial started, finished a task, or ended."""
        if not self._begun:
            self._turned = self.elapsed  # the start of Ray says nothing about the speed of trials
        self._begun, self.stage = True, None
        self._bar.update(self._bar_task, total=self._planned, completed=self.trials.n_ended)
        if trial.status != "running":
            self.say_plainly(self._ended_line(trial))

    def seconds_left(self) -> float | None:
        """Estimate the time left from the tasks that this process has done so far; None before the first."""
        done = self._tasks_done()
        here, left = done - self._tasks_known, self._planned * self.spec.steps - done
        return None if here <= 0 else (self.elapsed - self._turned) * left / here

    @property
    def _planned(self) -> int:
        known = len(self.trials)  # a re-evaluation that was extended has runs of former candidates
        return max(planned_trials(self.spec, self.trials), known)

    def _tasks_done(self) -> int:
        return self.spec.steps * self.trials.n_ended + sum(trial.tasks_done for trial in self.trials.running)

    def _progress_text(self) -> str:
        """Say how the run stands: the best trial of a search, the mean over the seeds of a final run."""
        if self.phase is not None:
            return self.phase
        if isinstance(self.spec, SearchSpec):
            best = best_trial(self.trials, self.spec.aim)
            return f"best so far {'none' if best is None else f'{self.spec.words(best)} (trial {best.number})'}"
        finished = [trial for trial in self.trials if trial.value is not None and trial.status == "complete"]
        values = [trial.value or 0.0 for trial in finished]
        mean = self.spec.value_text(statistics.fmean(values)) if values else "none"
        if values and (aim := self._aim).objectives:
            mean = aim.words_of(aim.means(finished))
        runs = "of all fresh runs" if isinstance(self.spec, ReevaluationSpec) else "so far"
        return f"mean {runs} {mean}"

    def _ended_line(self, trial: TrialSummary) -> str:
        value = trial.error or (self.spec.reached(trial.tasks_done) if trial.value is None else self._words(trial))
        shown = brief(dict(trial.hyperparameters), list(self.spec.dimensions))
        return self._line(f"{self.spec.label(trial.number)} {trial.status}: {value}", shown)

    def _words(self, trial: TrialSummary) -> str:
        if self._aim.objectives and trial.status == "complete":
            return self._aim.words(trial)
        return self.spec.value_text(trial.value or 0.0)

    @property
    def _aim(self) -> Aim:
        """What the run aims at; a re-evaluation shares it with its search."""
        search = self.spec.search if isinstance(self.spec, ReevaluationSpec) else self.spec
        return search.aim if isinstance(search, SearchSpec) else Aim()

    def status_line(self) -> str:
        """Return the plain line that says which trials run."""
        return self._line(", ".join(f"{self.spec.label(t.number)}: {self._way(t)}" for t in self._running()))

    def _line(self, *about: str) -> str:
        parts = [*about, self._progress_text(), self.times()]
        return f"[{self.trials.n_ended}/{self._planned}] {' | '.join(part for part in parts if part)}"

    def _way(self, trial: TrialSummary) -> str:
        epochs = self._now(trial)
        return f"{trial.tasks_done}/{counted(self.spec.steps, self.spec.step_noun)}" + (
            f" and {epochs}" if epochs else ""
        )

    def _now(self, trial: TrialSummary) -> str:
        """Return the epoch of a running trial, and the name of its task; on several benchmarks the tasks of each."""
        if isinstance(trial, MultiTrial):
            return self._of_parts(trial)
        epochs, task = self._epochs(trial), trial.tasks_done + 1
        named = self.spec.steps == len(self.spec.tasks) and task <= self.spec.steps
        return f"{epochs} of {self.spec.tasks[task - 1].label}" if epochs and named else epochs

    def _of_parts(self, trial: MultiTrial) -> str:
        parts = parts_of(self.spec)
        assert parts is not None, "the trial has parts"
        titles = parts.search.titles
        running = [part for part in trial.parts if part is not None and part.status == "running"]
        ways = [(titles[parts.place_of(part.number)], part.tasks_done, parts.steps_of(part.number)) for part in running]
        return ", ".join(f"{title} {done}/{of}" for title, done, of in ways)

    def _running(self) -> list[TrialSummary]:
        return self.trials.running if self._begun else []

    def render(self) -> Group:
        """Return what a terminal shows."""
        table = Table(box=None, pad_edge=False, show_header=len(self.trials) > 0)
        for column in (
            self.spec.role,
            f"{self.spec.step_noun}s",
            f"{self.spec.metrics.prefix} accuracy",
            "hyperparameters",
        ):
            table.add_column(column, style="dim" if column == "hyperparameters" else "")
        for trial in self._running():
            accuracy = trial.final.get(self.spec.metrics.average_accuracy)
            table.add_row(
                self.spec.label(trial.number).removeprefix(f"{self.spec.role} "),
                f"{'■' * trial.tasks_done}{'□' * (self.spec.steps - trial.tasks_done)} {self._now(trial)}".rstrip(),
                "" if accuracy is None else f"{accuracy:.1f} %",
                brief(dict(trial.hyperparameters), list(self.spec.dimensions)),
            )
        status = Text(f"{self._progress_text()}   {self.times()}")
        return Group(self._bar, status, table)
