"""The state of a campaign: its cells and their runs, read from the storage alone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from checked_input.names import counted
from tausearch.campaigns.cells import CampaignCells, CellRuns, read_cells
from tausearch.presentation import address_option, campaign_command, concurrency_option
from tausearch.runs import (
    CampaignDirectory,
    FinalSpec,
    RunSpec,
    RunStatus,
    Score,
    SearchSpec,
    Storage,
    StorageError,
    TrialSummary,
    another_choice,
    is_driven,
    read_status,
    summarise,
    trains_another,
)
from trainables.errors import InputError
from trainables.metrics import TEST

CellState = Literal["waiting", "searching", "reevaluating", "training", "stopped", "done", "failed"]


@dataclass(frozen=True)
class CellStatus:
    """The state of a cell.

    Attributes:
        runs: The cell and the names of its runs.
        state: What it does now.
        search: Its search; None before it exists, and for a cell that is not searched.
        final: Its final run; None before it exists.
        scores: Metric to the score over the seeds that have finished.
        reason: Why the cell failed or cannot be read, or why it is to go on although its runs have ended.
    """

    runs: CellRuns
    state: CellState
    search: RunStatus | None = None
    final: RunStatus | None = None
    scores: dict[str, Score] | None = None
    reason: str | None = None

    @property
    def n_ended(self) -> tuple[int, int]:
        """Number of trials of its search and of seeds of its final run that have ended, whatever their status."""
        return (0 if self.search is None else self.search.n_ended, 0 if self.final is None else self.final.n_ended)

    @property
    def trials(self) -> int:
        """Number of trials that its search has in the end, if it has one."""
        known = self.search is not None and not _lacks(self.search, self.runs.trials)
        return self.search.planned if self.search is not None and known else self.runs.trials

    @property
    def left(self) -> tuple[int, int]:
        """Number of trials of its search and of seeds of its final run that have not ended and will run."""
        if self.state in ("done", "failed"):
            return 0, 0
        trials, seeds = self.n_ended
        if _has_earlier_choice(self.search, self.final):
            seeds = 0  # its final run is trained anew
        return max(0, self.trials - trials), max(0, self.runs.seeds - seeds)

    @property
    def extended_by_hand(self) -> bool:
        """Whether its search has more trials than the file asked for, which the campaign refuses."""
        return self.search is not None and self.search.spec.trials > self.runs.trials

    @property
    def reevaluations_left(self) -> int:
        """Number of re-evaluations that its search may still run."""
        if self.search is None:
            return self.runs.reevaluations
        if self.search.state == "finished" or self.search.reevaluation is None:
            return 0
        ended = sum(trial.has_ended for trial in self.search.reevaluation.counted)
        return max(0, self.runs.reevaluations - ended)

    @property
    def best(self) -> TrialSummary | None:
        """The best trial of its search so far."""
        return None if self.search is None else self.search.best

    @property
    def accuracy(self) -> Score | None:
        """Final accuracy over the seeds that have finished; None before one has."""
        return (self.scores or {}).get(TEST.final_accuracy)

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `tausearch campaign status --format json` prints."""
        ending, reevaluation = (None, None) if self.search is None else (self.search.ending, self.search.reevaluation)
        return {
            **self.runs.model_dump(mode="json"),
            "state": self.state,
            "trials_ended": self.n_ended[0],
            "seeds_ended": self.n_ended[1],
            "best": None if self.search is None else self.search.best_as_dict(),
            "ended": None if ending is None else ending.model_dump(),
            "reevaluation": None if reevaluation is None else reevaluation.as_dict(),
            "summary": {name: vars(score) for name, score in (self.scores or {}).items()},
            "reason": self.reason,
        }


@dataclass(frozen=True)
class CampaignStatus:
    """The state of a campaign.

    Attributes:
        running: Whether a process drives it.
        saved: Its cells and the options of its last driver, as its folder keeps them.
    """

    directory: CampaignDirectory
    running: bool
    cells: tuple[CellStatus, ...]
    saved: CampaignCells

    @property
    def name(self) -> str:
        """Its name."""
        return self.directory.name

    @property
    def cell_runs(self) -> tuple[CellRuns, ...]:
        """Its cells with the names of their runs."""
        return tuple(each.runs for each in self.cells)

    @property
    def finished(self) -> bool:
        """Whether every cell is done or failed."""
        return all(each.state in ("done", "failed") for each in self.cells)

    @property
    def failed_cells(self) -> list[CellStatus]:
        """The cells that failed."""
        return [each for each in self.cells if each.state == "failed"]

    @property
    def state(self) -> str:
        """The state in one word: "starting", "running", "finished" or "stopped"."""
        if self.running:
            none_began = all(each.state == "waiting" and each.search is each.final is None for each in self.cells)
            return "starting" if none_began else "running"
        return "finished" if self.finished else "stopped"

    def command(self, storage_option: str) -> str:
        """Return the command that continues it as its last driver ran, without callbacks, which no file has."""
        options = address_option(self.saved.address) + concurrency_option(self.saved.max_concurrent_trials)
        return campaign_command(self.saved.file, storage_option, self.saved.code, options)

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `tausearch campaign status --format json` prints."""
        cells = [each.as_dict() for each in self.cells]
        return {
            "name": self.name,
            "file": self.saved.file,
            "running": self.running,
            "finished": self.finished,
            **({"address": self.saved.address} if self.saved.address else {}),
            "cells": cells,
        }


def read_campaign_status(
    storage: Storage, directory: CampaignDirectory, *, running: bool | None = None
) -> CampaignStatus:
    """Return the state of a campaign. A cell with an unreadable run is a failed one.

    Without `running`, whether a process drives it, its lock is looked at.

    Raises:
        InputError: If there is no such campaign, or its file cannot be read.
    """
    saved, running = read_cells(directory), is_driven(directory) if running is None else running
    cells = tuple(_readable_or_failed(storage, cell, running=running) for cell in saved.cells)
    return CampaignStatus(directory, running, cells, saved)


def _readable_or_failed(storage: Storage, runs: CellRuns, *, running: bool) -> CellStatus:
    """Return what `read_cell_status` does, also where it lets nothing start because a record cannot be read."""
    try:
        return read_cell_status(storage, runs, running=running)
    except StorageError as error:
        return CellStatus(runs, "failed", reason=str(error))


def all_campaign_statuses(storage: Storage) -> tuple[list[CampaignStatus], list[InputError]]:
    """Read every campaign in a storage root, oldest first; also returns a line for each unreadable one."""
    found, faults = [], []
    for directory in storage.campaigns():
        try:
            found.append(read_campaign_status(storage, directory))
        except InputError as error:
            faults.append(error)
    return found, faults


def starting_campaigns(storage: Storage) -> list[CampaignStatus]:
    """Return the campaigns whose driver has made none of their runs yet, oldest first; leave out unreadable ones."""
    driven = (directory for directory in storage.campaigns() if is_driven(directory))
    found = []
    for directory in driven:
        with suppress(InputError):
            if not _has_begun(storage, directory):  # else all its runs would be read
                found.append(read_campaign_status(storage, directory))
    return [each for each in found if each.state == "starting"]


def _has_begun(storage: Storage, directory: CampaignDirectory) -> bool:
    names = (name for cell in read_cells(directory).cells for name in (cell.search, cell.final) if name is not None)
    return any(storage.run_exists(name) for name in names)


def read_cell_status(storage: Storage, runs: CellRuns, *, running: bool = False) -> CellStatus:
    """Read one cell; `running` says whether a process drives its campaign."""
    try:
        search = _status(storage, runs.search)
        final = _status(storage, runs.final)
    except InputError as error:
        return CellStatus(runs, "failed", reason=str(error))
    state, reason = _state(runs, search, final)
    if state == "stopped" and running:
        state = _between_runs(runs, search, final)
    scores = {} if final is None else {name: Score(**each) for name, each in summarise(final.trials).items()}
    found = CellStatus(runs, state, search, final, scores, reason)
    return found if reason is not None else replace(found, reason=_remark(found))


def _status(storage: Storage, name: str | None) -> RunStatus | None:
    return read_status(storage.run(name)) if name is not None and storage.run_exists(name) else None


def _lacks(run: RunStatus, asked: int) -> bool:
    """Whether the campaign's file asks for more trials than a run has: it has changed, and no driver has begun them."""
    return run.spec.trials < asked


def _has_earlier_choice(search: RunStatus | None, final: RunStatus | None) -> bool:
    """Whether a final run trains an earlier choice of its search, which was extended since by hand."""
    if search is None or search.state != "finished" or search.best is None:
        return False
    trained = None if final is None else final.spec
    return isinstance(trained, FinalSpec) and trains_another(trained, search.best.hyperparameters)


def _remark(cell: CellStatus) -> str | None:
    """Return why a cell whose runs have ended goes on, and what its file must say first; None if nothing is amiss."""
    parts, search, final = [], cell.search, cell.final
    if search is not None and final is not None and _has_earlier_choice(search, final):
        parts.append(f"final run {final.spec.name!r} {another_choice(search.spec.name)}")
    if search is not None and cell.extended_by_hand:
        known = (
            f"search {search.spec.name!r} has {search.spec.trials} trials, and the file asked for {cell.runs.trials}"
        )
        parts.append(f"{known}: write {options_of(search.spec)} for this cell before the campaign goes on")
    if search is not None and (fewer := _extended_to_fewer(search, cell.runs.trials)) is not None:
        parts.append(fewer)
    return "; ".join(parts) or None


def _extended_to_fewer(search: RunStatus, asked: int) -> str | None:
    """Return what a campaign adds to a search that ended early, and was extended by hand to fewer trials than asked."""
    spec = search.spec
    if not isinstance(spec, SearchSpec) or not spec.stop.since or not _lacks(search, asked):
        return None
    known = f"search {spec.name!r} has {counted(spec.trials, 'trial')}, and the file asks for {asked}"
    return (
        f"{known}: the campaign runs {asked - spec.trials} more, unless the file says {options_of(spec)} for this cell"
    )


def options_of(spec: RunSpec, trials: int | None = None) -> str:
    """Return the options of a cell's search, extended by hand, that keep it; `trials` if it is to have more.

    By default a search of many trials re-evaluates; one that began with few does not, however many it gets.
    """
    asked = f"trials: {spec.trials if trials is None else trials}"
    return f"{asked}, reevaluate: 0" if isinstance(spec, SearchSpec) and spec.reevaluate is None else asked


def _state(runs: CellRuns, search: RunStatus | None, final: RunStatus | None) -> tuple[CellState, str | None]:
    """Return the state of a cell in what its file asks for now, and the reason if it failed."""
    searched = search is None or (search.state == "finished" and not _lacks(search, runs.trials))
    if final is not None and searched:
        if final.state != "finished" or _lacks(final, runs.seeds):
            return ("training" if final.state == "running" else "stopped"), None
        if _has_earlier_choice(search, final):
            return "stopped", None  # its final run has not started anew
        for trial in final.trials:
            if trial.status != "complete":
                return "failed", f"{final.spec.label(trial.number)} {trial.status}: {trial.error}"
        return "done", None
    if search is None:
        return "waiting", None
    if not searched:
        under_way: CellState = "reevaluating" if search.n_ended == search.planned else "searching"
        if search.state == "running":  # its run may be open before there is room for its first trial
            return (under_way if search.trials else "waiting"), None
        return "stopped", None
    if search.best is None:
        return "failed", cell_failure_reason(search)
    return "stopped", None  # its search has chosen, and its final run has not started


def _between_runs(runs: CellRuns, search: RunStatus | None, final: RunStatus | None) -> CellState:
    """Return the state of a cell that has none of its runs open while its campaign runs."""
    if search is not None and search.n_ended and (final is None or _lacks(search, runs.trials)):
        return "searching"
    return "waiting" if final is None else "training"


def cell_failure_reason(search: RunStatus) -> str:
    """Return the reason why a search that has ended has chosen no trial."""
    if search.counts["complete"]:
        return search.why_nothing_chosen
    errors = [trial.error for trial in search.trials if trial.error]
    return f"no trial finished its last task; the last one: {errors[-1]}" if errors else "no trial finished"
