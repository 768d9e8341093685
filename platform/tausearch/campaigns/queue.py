"""The cells of a campaign as runs to be driven: a cell's search, then its final run, early cells first."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tausearch.api import search_job, training_job
from tausearch.campaigns.plans import CampaignPlan, PlannedCell, plan_final
from tausearch.execution import Books, Interrupt, Job, Listener, OpenRun, StorageWatch, ready
from tausearch.runs import Plan, RunResult, read_status, why_nothing_chosen
from trainables.errors import InputError

_log = logging.getLogger(__name__)


@dataclass
class _Driven:
    """A run under way: of which cell, what is written about it, and what lets go of it."""

    cell: PlannedCell
    run: OpenRun
    books: Books
    held: ExitStack
    follows: _Driven | None = None  # the search that it is part of, which is concluded after it


class Cells:
    """The `Line` of a campaign.

    Runs are opened as they are needed, and concluded in a thread of their own, so that no slot waits for figures or for
    MLflow.

    Args:
        plan: What is to be done; of cells that have begun, what is left.
        interrupt: Knows whether and how the driver was stopped.
        watch: Looks after the storage.
        say: Prints a line for a person.
        follow: Returns who else is told of the trials of a run that is opened.
    """

    def __init__(
        self,
        plan: CampaignPlan,
        interrupt: Interrupt,
        watch: StorageWatch,
        say: Callable[[str], None],
        follow: Callable[[PlannedCell, Job], Sequence[Listener]],
    ) -> None:
        self.plan = plan
        self.interrupt = interrupt
        self.watch = watch
        self.say = say
        self.follow = follow
        self.failed: dict[str, str] = {}  # titles of cells that could not go on, and why
        self.results: list[RunResult] = []
        self._left = list(plan.cells)
        self._driven: dict[str, _Driven] = {}  # by the names of their runs
        self._over: queue.SimpleQueue[_Driven | None] = queue.SimpleQueue()
        self._concluder = threading.Thread(target=self._conclude_all, name="conclusions", daemon=True)
        self._concluder.start()

    def open_next(self) -> OpenRun | None:
        """Open what is to be driven of the next cell; see `Line`."""
        while self._left and self.watch.problem is None:
            cell = self._left.pop(0)
            searching = cell.runs.search is not None and not self._is_concluded(cell.runs.search)
            run = self._open(cell, cell.search) if searching else self._open_final(cell)
            if run is not None:
                return run
        return None

    def ended(self, run: OpenRun) -> OpenRun | None:
        """Have a run concluded; a cell's final run follows its search, and before that what confirms the choice."""
        driven = self._driven[run.spec.name]
        if run.job.follow is not None and (confirming := self._confirmed(driven, run.job.follow)) is not None:
            return confirming
        for each in [driven, *([driven.follows] if driven.follows else [])]:
            self._over.put(self._driven.pop(each.run.spec.name))
        if self.watch.problem is not None or run.spec.purpose == "final" or driven.cell.runs.title in self.failed:
            return None
        return self._open_final(driven.cell)

    def close(self) -> None:
        """Conclude the runs that have not ended, and wait until all are concluded."""
        for driven in reversed(self._driven.values()):
            self._over.put(driven)
        self._driven = {}
        self._over.put(None)
        self._concluder.join()

    def _open_final(self, cell: PlannedCell) -> OpenRun | None:
        if self._is_concluded(cell.runs.final):
            return None
        try:
            if cell.runs.search is not None and not cell.search.directory.best_file.exists():
                raise InputError(self._why_not(cell))
            plan = plan_final(cell, self.plan.request, self.plan.opening)
        except ValueError as error:  # InputError and SpaceError are
            self._note(cell, error)
            return None
        return self._open(cell, plan)

    def _open(self, cell: PlannedCell, plan: Plan) -> OpenRun | None:
        """Open a run, from wherever its record says that it is; None if it cannot be driven."""
        with ExitStack() as stack:
            try:
                spec, directory = stack.enter_context(plan.entered())
                job = (search_job if spec.purpose == "search" else training_job)(spec, plan.storage, directory)
                return self._opened(cell, job, stack)
            except (ValueError, OSError) as error:
                if not self.watch.failed(error):
                    self._note(cell, error)
                return None

    def _confirmed(self, search: _Driven, follow: Callable[[], Job]) -> OpenRun | None:
        """Open the confirmations of a search, which stays open until they have ended; None if that cannot be done."""
        if self.watch.problem is not None:
            return None
        try:
            return self._opened(search.cell, follow(), ExitStack(), search)
        except (ValueError, OSError) as error:
            if not self.watch.failed(error):
                self._note(search.cell, error)
            return None

    def _opened(self, cell: PlannedCell, job: Job, stack: ExitStack, follows: _Driven | None = None) -> OpenRun:
        for line in ready(job.directory, job.trials):
            self.say(line)
        books = Books(job, None if follows is None else follows.books)
        run = OpenRun(job, [*books.listeners, *self.follow(cell, job)])
        self._driven[job.spec.name] = _Driven(cell, run, books, stack.pop_all(), follows)
        return run

    def _why_not(self, cell: PlannedCell) -> str:
        """Say why the search of a cell has chosen nothing."""
        search = read_status(cell.search.directory)
        if search.counts["complete"]:
            return f"its search: {why_nothing_chosen(search.trials, search.spec.constraints)}"
        return "no trial of its search finished its last task"

    def _note(self, cell: PlannedCell, error: Exception) -> None:
        """Take note that a cell cannot go on; the others do."""
        self.failed[cell.runs.title] = str(error)
        self.say(f"{cell.runs.title}: {error}")

    def _conclude_all(self) -> None:
        while (driven := self._over.get()) is not None:
            with driven.held:
                try:
                    self._conclude(driven)
                except Exception as error:  # whatever it is, the other cells go on
                    _log.exception("%s cannot be concluded", driven.run.spec.name)
                    self.failed.setdefault(driven.cell.runs.title, f"cannot be concluded ({error})")

    def _conclude(self, driven: _Driven) -> None:
        if self.watch.problem is not None:
            driven.books.abandon()
            return
        result = driven.books.conclude(self.interrupt)
        self.results.append(result)
        if driven.follows is None and result.signal is None and not result.out_of_time:
            self.plan.directory.conclude(result.name)

    def _is_concluded(self, run: str) -> bool:
        """Whether a driver of the campaign has seen a run to its end; one that was deleted since is made again."""
        return self.plan.storage.run_exists(run) and self.plan.directory.is_concluded(run)
