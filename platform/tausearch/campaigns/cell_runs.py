"""The runs of one cell of a campaign, in the order in which a driver opens them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from tausearch.api import FinalRun, SearchRun
from tausearch.campaigns.plans import CampaignPlan, PlannedCell, plan_final
from tausearch.execution import Run
from tausearch.runs import (
    FinalSpec,
    Plan,
    RunResult,
    SearchSpec,
    read_status,
)
from trainables.errors import InputError


class CampaignCell:
    """A `Cell` of a campaign: its search, then its final run. Runs that an earlier driver has concluded are left out.

    Args:
        plan: The campaign.
        planned: The cell.
        say: Prints a line for a person.

    Attributes:
        error: Why the cell could not go on; None if it could.
    """

    def __init__(self, plan: CampaignPlan, planned: PlannedCell, say: Callable[[str], None]) -> None:
        self.plan = plan
        self.planned = planned
        self.say = say
        self.error: str | None = None
        self._searched = planned.runs.search is None or self._is_concluded(planned.runs.search)
        self._trained = False

    @property
    def title(self) -> str:
        """The title of the cell: `digits/ita-lora`."""
        return self.planned.runs.title

    def open(self, held: ExitStack) -> Run | None:
        """Open the search, then the final run once the search has chosen; None after both, or after an error."""
        if self.error is not None or self._trained:
            return None
        if not self._searched:
            self._searched = True
            return self._entered(self.planned.search, held)
        self._trained = True
        if self._is_concluded(self.planned.runs.final):
            return None
        return self._entered(self._final(), held)

    def failed(self, error: Exception) -> None:
        """Note the error; the other cells go on."""
        if self.error is None:
            self.error = str(error)
            self.say(f"{self.title}: {error}")

    def concluded(self, result: RunResult) -> None:
        """Note in the campaign's folder that the run is concluded and need not be opened again."""
        if result.signal is None and not result.out_of_time:
            self.plan.directory.conclude(result.name)

    def _entered(self, plan: Plan[SearchSpec] | Plan[FinalSpec], held: ExitStack) -> Run:
        spec, directory = held.enter_context(plan.entered())
        if isinstance(spec, SearchSpec):
            return SearchRun(spec, plan.storage, directory)
        assert isinstance(spec, FinalSpec)
        return FinalRun(spec, plan.storage, directory)

    def _final(self) -> Plan[FinalSpec]:
        if self.planned.runs.search is not None and not self.planned.search.directory.best_file.exists():
            raise InputError(self._why_nothing_chosen())
        return plan_final(self.planned, self.plan.request, self.plan.opening)

    def _why_nothing_chosen(self) -> str:
        search = read_status(self.planned.search.directory)
        if search.counts["complete"]:
            return f"its search: {search.why_nothing_chosen}"
        return "no trial of its search finished its last task"

    def _is_concluded(self, run: str) -> bool:
        """Whether a driver of the campaign has concluded a run. A run that was deleted later is made again."""
        return self.plan.storage.run_exists(run) and self.plan.directory.is_concluded(run)
