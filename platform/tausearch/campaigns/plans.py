"""Check a campaign and all of its cells before any work starts, and plan their runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

from tausearch.api import Opening, SearchRequest, TrainRequest, open_benchmark, plan_search, plan_training
from tausearch.campaigns.cells import CampaignCells, CellRuns, read_cells
from tausearch.campaigns.file import CampaignFile, Cell, read_campaign
from tausearch.campaigns.requests import CampaignRequest
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
class PlannedCell:
    """A cell whose search and final run have been checked.

    Attributes:
        cell: What the file says of it.
        runs: The names of its runs, and their sizes.
        search: Its search as it is planned; of a cell that is not searched, what the search would have been.
        training: Its final run as it is planned before anything has been chosen: at the space's start.
        standing: How far it is already.
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
        name: Its name.
        storage: The storage root.
        directory: Its folder, which need not exist yet.
        cells: Its cells, in order.
        gone: Cells that it had and that its file does not name any more.
        request: What was asked for.
        opening: Opens the benchmarks, each once: what has been checked of one for the plan is not checked again.
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

    Args:
        request: The request.

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
    _require_titles(file, request.redo)
    planner = _Planner(request, storage, file.name)
    cells = []
    for cell in file.cells:
        try:
            cells.append(planner.plan(cell, known.get(cell.title), anew=cell.title in request.redo))
        except ValueError as error:  # InputError and SpaceError are
            raise InputError(f"campaign file {request.file}: {cell.title}: {error}") from error
    titles = {cell.title for cell in file.cells}
    gone = tuple(each for title, each in known.items() if title not in titles)
    return CampaignPlan(file.name, storage, directory, tuple(cells), gone, request, planner.opening)


def plan_final(planned: PlannedCell, request: CampaignRequest, opening: Opening) -> Plan[FinalSpec]:
    """Plan the final run of a cell whose search has chosen. Without a search it is planned already.

    Returns:
        The plan of the final run.

    Raises:
        InputError: If it cannot be run, or has been started otherwise.
    """
    if planned.cell.search is None:
        return planned.training
    best = load_best(planned.search.directory.best_file)
    return plan_training(_training(planned.cell, planned.runs, best, request), opening)


class _Planner:
    """Plans cells and opens each benchmark once."""

    def __init__(self, request: CampaignRequest, storage: Storage, campaign: str) -> None:
        self.request = request
        self.storage = storage
        self.campaign = campaign
        self.opening = cache(open_benchmark)

    def plan(self, cell: Cell, known: CellRuns | None, *, anew: bool) -> PlannedCell:
        search_name, final_name = self._names(cell, known, anew=anew)
        asked = SearchRequest(
            cell.benchmark,
            cell.method,
            name=search_name or final_name,
            **{**_given(self.request), **(cell.search or {})},
        )
        search = plan_search(asked, self.opening)
        runs = CellRuns(
            benchmark=search.spec.benchmark,
            method=cell.method,
            title=cell.title,
            search=search_name,
            final=final_name,
            trials=0 if search_name is None else search.spec.trials,
            reevaluations=0 if search_name is None else reevaluations_of(search.spec),
            seeds=1,
            steps=search.spec.steps,
        )
        training = plan_training(_training(cell, runs, start_of(search.spec), self.request), self.opening)
        runs = runs.model_copy(update={"seeds": training.spec.trials})
        planned = PlannedCell(cell, runs, search, training, cell_standing(self.storage, runs))
        _require_the_same(planned, self.request, self.opening)
        return planned

    def _names(self, cell: Cell, known: CellRuns | None, *, anew: bool) -> tuple[str | None, str]:
        """Return the names of a cell's runs: the known names, or new ones for `--redo`."""
        stem = f"{self.campaign}-{cell.stem}"
        if anew:
            stem = self.storage.free_name(stem)
        elif known is not None:
            stem = known.final.removesuffix("-final")
        return (None if cell.search is None else stem), f"{stem}-final"


def _require_titles(file: CampaignFile, redo: Collection[str]) -> None:
    titles = [cell.title for cell in file.cells]
    for title in redo:
        if title not in titles:
            raise InputError(f"--redo {title}: the campaign has no such cell; it has {', '.join(titles)}")


def _given(request: CampaignRequest) -> dict[str, Any]:
    """Return the options that all runs of a campaign share."""
    return {
        "storage": request.storage,
        "data_root": request.data_root,
        "tracking_uri": request.tracking_uri,
        "address": request.address,
        "resume_if_exists": True,
    }


def _training(cell: Cell, runs: CellRuns, best: BestFile, request: CampaignRequest) -> TrainRequest:
    return TrainRequest(best, name=runs.final, **{**_given(request), **cell.train})


def _require_the_same(planned: PlannedCell, request: CampaignRequest, opening: Opening) -> None:
    """Refuse a cell that has started with other options; the error names them.

    Raises:
        InputError: If it has.
    """
    try:
        if planned.cell.search is not None and planned.search.exists:
            planned.search.continued()
        if planned.training.exists:
            plan_final(planned, request, opening).continued()
    except InputError as error:
        raise InputError(f"{error}; to start the cell anew: --redo {planned.cell.title}") from error
