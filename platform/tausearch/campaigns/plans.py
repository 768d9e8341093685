"""Check a campaign and all of its cells before any work starts, and plan their runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from checked_input import bounds
from tausearch.api import (
    DriveRequest,
    Opening,
    SearchRequest,
    TrainRequest,
    open_benchmark,
    plan_search,
    plan_training,
    within,
)
from tausearch.campaigns.cells import CampaignCells, CellRuns, read_cells
from tausearch.campaigns.file import Cell, read_campaign
from tausearch.campaigns.status import CellStanding, cell_standing
from tausearch.runs import (
    AnySpec,
    CampaignDirectory,
    FinalSpec,
    Plan,
    SearchSpec,
    Storage,
    open_storage,
    reevaluations_of,
)
from tausearch.studies import BestFile, load_best, start_of
from trainables.errors import InputError


@dataclass(frozen=True)
class CampaignRequest(DriveRequest):
    """A campaign to plan, start or continue; see `DriveRequest` for the rest, which counts for all cells together.

    Attributes:
        file: The campaign's file.
        redo: Titles of cells to start anew, such as `digits/ita-lora`; the runs that they have are left alone.
        time_budget: Seconds after which the campaign is stopped; the same command continues it.
    """

    file: str | Path
    _: KW_ONLY
    redo: Sequence[str] = ()
    time_budget: float | None = within(bounds.TIME, None)


@dataclass(frozen=True)
class PlannedCell:
    """A cell whose search and final run have been checked.

    Attributes:
        cell: The cell as the file describes it.
        runs: The names of its runs, and their sizes.
        search: The plan of its search; a cell that is not searched has the plan of the search that it leaves out.
        training: The plan of its final run before a search has chosen: at the start of the space.
        standing: The state of its runs.
    """

    cell: Cell
    runs: CellRuns
    search: Plan[SearchSpec]
    training: Plan[FinalSpec]
    standing: CellStanding

    @property
    def specs(self) -> list[AnySpec]:
        """The specifications of its runs, in order."""
        return [*([] if self.cell.search is None else [self.search.spec]), self.training.spec]


@dataclass(frozen=True)
class CampaignPlan:
    """The plan of a campaign.

    Attributes:
        directory: Its folder, which need not exist yet.
        gone: Earlier cells that its file does not name any more.
        opening: Opens each benchmark once, so that it is checked once.
    """

    name: str
    storage: Storage
    directory: CampaignDirectory
    cells: tuple[PlannedCell, ...]
    gone: tuple[CellRuns, ...]
    request: CampaignRequest
    opening: Opening

    @property
    def kept(self) -> CampaignCells:
        """The cells to write to the campaign's folder."""
        return CampaignCells(campaign=self.name, cells=tuple(each.runs for each in self.cells))


def plan_campaign(request: CampaignRequest) -> CampaignPlan:
    """Check a campaign's file and every cell, and return the plan. Nothing is started.

    Returns:
        The plan.

    Raises:
        InputError: If anything is wrong, with file, cell and option, or if a cell has started with other options.
        SpaceError: If a search space is wrong.
    """
    file = read_campaign(request.file)
    storage = open_storage(request.storage, write=False)
    directory = storage.campaign(file.name)
    known = {each.title: each for each in read_cells(directory).cells} if directory.exists() else {}
    titles = [cell.title for cell in file.cells]
    for title in request.redo:
        if title not in titles:
            raise InputError(f"--redo {title}: the campaign has no such cell; it has {', '.join(titles)}")
    planner = _Planner(request, storage, file.name)
    cells = []
    for cell in file.cells:
        try:
            cells.append(planner.plan(cell, known.get(cell.title), anew=cell.title in request.redo))
        except ValueError as error:  # InputError and SpaceError are
            raise InputError(f"campaign file {request.file}: {cell.title}: {error}") from error
    gone = tuple(each for title, each in known.items() if title not in titles)
    return CampaignPlan(file.name, storage, directory, tuple(cells), gone, request, planner.opening)


def plan_final(planned: PlannedCell, request: CampaignRequest, opening: Opening) -> Plan[FinalSpec]:
    """Return the plan of the final run of a cell whose search has chosen.

    Raises:
        InputError: If it cannot be run, or has been started otherwise.
    """
    if planned.cell.search is None:
        return planned.training
    best = load_best(planned.search.directory.best_file)
    return plan_training(_training(planned.cell, planned.runs.final, best, request), opening)


class _Planner:
    """Plans cells and opens each benchmark once."""

    def __init__(self, request: CampaignRequest, storage: Storage, campaign: str) -> None:
        self.request = request
        self.storage = storage
        self.campaign = campaign
        self.opening = cache(open_benchmark)

    def plan(self, cell: Cell, known: CellRuns | None, *, anew: bool) -> PlannedCell:
        searched, stem = cell.search is not None, self._stem(cell, known, anew=anew)
        final = f"{stem}-final"
        asked = {**_given(self.request), **cell.protocol, **(cell.search or {}), "name": stem if searched else final}
        search = plan_search(SearchRequest(cell.benchmark, cell.method, **asked), self.opening)
        training = plan_training(_training(cell, final, start_of(search.spec), self.request), self.opening)
        runs = CellRuns(
            benchmark=search.spec.benchmark,
            method=cell.method,
            title=cell.title,
            search=stem if searched else None,
            final=final,
            trials=search.spec.trials if searched else 0,
            reevaluations=reevaluations_of(search.spec) if searched else 0,
            seeds=training.spec.trials,
            steps=search.spec.steps,
        )
        planned = PlannedCell(cell, runs, search, training, cell_standing(self.storage, runs))
        _require_the_same(planned, self.request, self.opening)
        return planned

    def _stem(self, cell: Cell, known: CellRuns | None, *, anew: bool) -> str:
        """Return the prefix of the names of a cell's runs: the known one, or a new one for `--redo`."""
        if known is not None and not anew:
            return known.final.removesuffix("-final")
        stem = f"{self.campaign}-{cell.title.replace('/', '-')}"
        return self.storage.free_name(stem) if anew else stem


def _given(request: CampaignRequest) -> dict[str, Any]:
    """Return the options that all runs of a campaign share."""
    return {
        "storage": request.storage,
        "data_root": request.data_root,
        "tracking_uri": request.tracking_uri,
        "address": request.address,
        "resume_if_exists": True,
    }


def _training(cell: Cell, name: str, best: BestFile, request: CampaignRequest) -> TrainRequest:
    return TrainRequest(best, name=name, **{**_given(request), **cell.train})


def _require_the_same(planned: PlannedCell, request: CampaignRequest, opening: Opening) -> None:
    """Refuse a cell that has started with other options; the `InputError` names them."""
    try:
        if planned.cell.search is not None and planned.search.exists:
            planned.search.continued()
        if planned.training.exists:
            plan_final(planned, request, opening).continued()
    except InputError as error:
        raise InputError(f"{error}; to start the cell anew: --redo {planned.cell.title}") from error
