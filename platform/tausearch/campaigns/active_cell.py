"""A cell of a campaign while it is driven."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from tausearch.api import FinalRun, SearchRun
from tausearch.campaigns.cell_plans import CellPlan, plan_final
from tausearch.campaigns.cells import read_cells
from tausearch.campaigns.outputs import copy_best, write_comparison
from tausearch.campaigns.plans import CampaignPlan
from tausearch.campaigns.status import cell_failure_reason
from tausearch.execution import Run
from tausearch.reports import RunPlots, draw_search_plots
from tausearch.runs import (
    FinalSpec,
    Plan,
    ReevaluationSpec,
    RunResult,
    RunSpec,
    Score,
    SearchSpec,
    TrialSummary,
    TrialTable,
    all_ended,
    best_trial,
    planned_trials,
    read_status,
    reevaluation_of,
)
from trainables.errors import InputError


class ActiveCell:
    """A cell while it is driven: its search, then its final run; runs that an earlier driver concluded are left out.

    Attributes:
        error: Why the cell could not go on; None if it could.
        search: The trials of its search.
        reevaluation: The re-evaluations of its search.
        final: The seeds of its final run.
        drawn: The plots of its search for the campaign's report, once the search is concluded.
    """

    def __init__(self, plan: CampaignPlan, planned: CellPlan, say: Callable[[str], None]) -> None:
        self.plan = plan
        self.planned = planned
        self.runs = planned.runs
        self.say = say
        self.error: str | None = None
        self.drawn: RunPlots | None = None
        goes_on = planned.added > 0 or self._was_reopened
        self._searched = self.runs.search is None or (self._is_concluded(self.runs.search) and not goes_on)
        self._trained = False
        self._may_choose_anew = not self._searched
        search, final = planned.status.search, planned.status.final
        known = None if search is None else search.reevaluation
        self.search = TrialTable(() if search is None else search.trials)
        self.reevaluation = TrialTable(() if known is None else known.runs)
        self._search_spec: RunSpec = planned.search.spec
        unfinished = search is not None and (planned.added > 0 or search.state != "finished")
        self.final = TrialTable(() if final is None or unfinished else final.trials)
        self._last_counted: tuple[object, list[TrialSummary]] = (None, [])

    @property
    def _was_reopened(self) -> bool:
        """Whether its search has begun and is not over, though it may be concluded: it got more by hand since."""
        search = self.planned.status.search
        return search is not None and search.n_ended > 0 and search.state != "finished"

    def open(self, locks: ExitStack) -> Run | None:
        """Open the search, then the final run once the search has chosen; None after both, or after an error."""
        if self.error is not None or self._trained:
            return None
        if not self._searched:
            self._searched = True
            self._reopen(self.planned.search)
            return SearchRun.open_locked(self.planned.search, locks)
        self._trained = True
        grows = self.planned.added_seeds > 0
        if not self._may_choose_anew and not grows and self._is_concluded(self.runs.final):
            return None
        final = self._final()
        self._reopen(final)
        self._rename(final.spec.name)
        if self._is_concluded(final.spec.name):
            self.final = TrialTable(read_status(final.directory).trials)
            return None
        return FinalRun.open_locked(final, locks)

    def _reopen(self, plan: Plan[Any]) -> None:
        """Forget that a run was concluded if it is not over, or was deleted since and is made again."""
        left = plan.spec.name == self.runs.search and self._was_reopened
        if plan.added or left or not plan.exists:
            self.plan.directory.reopen(plan.spec.name)

    def on_error(self, error: Exception) -> None:
        """Note the error; the other cells go on."""
        if self.error is None:
            self.error = str(error)
            self.say(f"{self.runs.title}: {error}")

    def on_concluded(self, result: RunResult) -> None:
        """Note in the campaign's folder that a run that is over need not be opened again; write its tables."""
        if result.over:
            self.plan.directory.mark_concluded(result.name)
        with suppress(OSError, InputError):  # the end of the campaign writes them again, and says what is wrong
            copy_best(self.plan.storage, self.plan.directory, self.runs)
            if result.name == self.runs.final:  # a search changes nothing in the comparison
                write_comparison(self.plan.storage, self.plan.directory)
            elif result.over:  # for the campaign's report, while trials compute
                self.drawn = draw_search_plots(read_status(self.plan.storage.run(result.name)))

    def attach(self, run: Run) -> None:
        """Count the trials of a run that was opened."""
        if run.spec.role == "trial":
            self.search, self._search_spec = run.trials, run.spec
        elif run.spec.role == "reevaluation":
            self.reevaluation = run.trials
        else:
            self.final = run.trials

    def _rename(self, final: str) -> None:
        """Keep the name of the cell's final run, which is new if the search has chosen another configuration."""
        if final != self.runs.final:
            self.runs = self.runs.model_copy(update={"final": final})
            read_cells(self.plan.directory).with_cell(self.runs).save(self.plan.directory)

    def _final(self) -> Plan[FinalSpec]:
        if self.runs.search is not None:
            search = read_status(self.planned.search.directory)
            if search.best is None:
                raise InputError(cell_failure_reason(search))
        return plan_final(self.planned, self.plan.request, self.plan.opening, self.plan.gpus)

    def _is_concluded(self, run: str) -> bool:
        """Whether a driver of the campaign has concluded a run. A run that was deleted later is made again."""
        return self.plan.storage.run_exists(run) and self.plan.directory.is_concluded(run)

    @property
    def has_failed(self) -> bool:
        """Whether the cell had failed before this process began, could not go on, or has lost a seed."""
        lost = self._has_trained and any(each.status != "complete" for each in self.final)
        return self.planned.status.state == "failed" or self.error is not None or lost

    @property
    def state(self) -> str:
        """What the cell does now, in one word."""
        if self.has_failed:
            return "failed"
        if self._has_trained:
            return "done"
        if self.final:
            return "training"
        return "reevaluating" if self.reevaluation else "searching" if self.search else "waiting"

    @property
    def _has_trained(self) -> bool:
        return all_ended(self.planned.training.spec, list(self.final))

    @property
    def _trials_left_out(self) -> int:
        """Number of trials that its search does not run because it ended early."""
        if self.runs.search is None:
            return 0
        return self.runs.trials - planned_trials(self._search_spec, list(self.search))

    @property
    def _eliminated(self) -> int:
        """Number of re-evaluations that are not needed, as far as the end of search or re-evaluation has shown it."""
        most, spec = self.runs.reevaluations, self._search_spec
        if self.final:
            return max(0, most - len(self._counted))
        if not isinstance(spec, SearchSpec) or spec.reevaluate is None or not all_ended(spec, list(self.search)):
            return 0
        candidates = reevaluation_of(ReevaluationSpec.of(spec), self.search, ()).race.candidates
        return most - len(candidates) * spec.reevaluate.runs  # the start may be among the best

    @property
    def running(self) -> list[TrialSummary]:
        """The trials that run now."""
        return [*self.search.running, *self.reevaluation.running, *self.final.running]

    @property
    def tasks(self) -> tuple[int, int]:
        """Number of finished tasks, and of all tasks. A trial that has ended needs none, nor does a failed cell."""
        steps = self.runs.steps
        done = sum(trial.tasks_done if not trial.has_ended else steps for trial in self._trials)
        if self.has_failed:
            return done, done
        return done, self.runs.tasks - (self._eliminated + self._trials_left_out) * steps

    @property
    def columns(self) -> tuple[str, str, str]:
        """Progress of the search, its best accuracy, and progress of the final run, in words."""
        best = best_trial(self.search, self.planned.search.spec.aim)
        trials = self.runs.trials - self._trials_left_out
        searched = "not searched" if self.runs.search is None else f"{self.search.n_ended}/{trials}"
        if self.reevaluation:
            ended = sum(trial.has_ended for trial in self._counted)
            searched += f" and {ended}/{self.runs.reevaluations - self._eliminated} again"
        values = [trial.value for trial in self.final if trial.value is not None and trial.status == "complete"]
        final = f"{self.final.n_ended}/{self.runs.seeds}" if self.final else ""
        if values:
            final += f"  {Score.of(values).text()}"
        return searched, "" if best is None else f"{best.value:.2f}", final

    @property
    def _trials(self) -> list[TrialSummary]:
        return [*self.search, *self._counted, *self.final]

    @property
    def _counted(self) -> list[TrialSummary]:
        """The re-evaluations of the candidates; with more trials than before there are those of former ones, too."""
        again, spec = list(self.reevaluation), self._search_spec
        if not again or not isinstance(spec, SearchSpec) or spec.reevaluate is None:
            return again
        tables = (self.search, self.reevaluation)
        now = [(table, len(table), table.n_ended, table.tasks_done) for table in tables]
        if self._last_counted[0] != now:  # each redraw asks for all cells, and the race takes milliseconds
            self._last_counted = now, reevaluation_of(ReevaluationSpec.of(spec), self.search, again).counted
        return self._last_counted[1]
