"""Check a campaign and all of its cells before any work starts, and plan their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from checked_input.names import counted
from tausearch.api import (
    DriveRequest,
    Opening,
    SearchRequest,
    open_benchmark,
    plan_search,
)
from tausearch.campaigns.cell_plans import (
    CellPlan,
    has_run_other_code,
    shared_options,
    stem_of,
    training_plan,
    with_options_of_existing_runs,
)
from tausearch.campaigns.cells import KEPT, CampaignCells, CellRuns, read_cells
from tausearch.campaigns.faults import at_place, of_cells
from tausearch.campaigns.file import CampaignFile, CellConfig, read_campaign, read_remainder
from tausearch.campaigns.status import read_cell_status
from tausearch.cluster import GpusAt, asked_once, bf16_at, gpus_at, require_reachable
from tausearch.runs import (
    CampaignDirectory,
    FinalSpec,
    Plan,
    SearchSpec,
    Storage,
    checked_name,
    open_storage,
    read_spec,
    reevaluations_of,
)
from tausearch.studies import unsearched_best_file
from tausearch.tracking import checked_uri
from trainables.errors import Faults, InputError
from trainables.user_code import require_allowed, require_current


@dataclass(frozen=True)
class CampaignRequest(DriveRequest):
    """A campaign to plan, start or continue; see `DriveRequest` for the rest, which counts for all cells together.

    Attributes:
        file: The campaign's file.
        redo: Titles of cells to start anew, such as `digits/ita-lora`; the runs that they have are left alone. Given
            again after a kill, it continues what it has begun, unless options or code have changed.
    """

    file: str | Path
    _: KW_ONLY
    redo: Sequence[str] = ()


@dataclass(frozen=True)
class RefusedCell:
    """A cell that cannot be run, and all reasons."""

    title: str
    faults: tuple[str, ...]


@dataclass(frozen=True)
class CampaignPlan:
    """The plan of a campaign.

    Attributes:
        directory: Its folder, which need not exist yet.
        rows: All cells in the order of the file; a campaign with one that is refused is not driven.
        gone: Cells of its last driver that its file does not name any more.
        long_gone: Those that it had left out before; what comes back has its runs. So are those that were redone under
            another protocol.
        kept: What the campaign's folder had when this was planned; None before its first driver.
        redone: Cells that commands with `--redo` have started anew, since the last one without it.
        opening: Opens each benchmark once, so that it is checked once.
        gpus: Joins the cluster once, to ask for its GPUs.
    """

    name: str
    storage: Storage
    directory: CampaignDirectory
    rows: tuple[CellPlan | RefusedCell, ...]
    gone: tuple[CellRuns, ...]
    long_gone: tuple[CellRuns, ...]
    kept: CampaignCells | None
    redone: tuple[str, ...]
    request: CampaignRequest
    opening: Opening
    gpus: GpusAt

    @property
    def cells(self) -> tuple[CellPlan, ...]:
        """The cells that can be run."""
        return tuple(each for each in self.rows if isinstance(each, CellPlan))

    @property
    def refused(self) -> tuple[RefusedCell, ...]:
        """The cells that cannot be run."""
        return tuple(each for each in self.rows if isinstance(each, RefusedCell))

    @property
    def saved_cells(self) -> CampaignCells:
        """The content of the campaign's folder: its cells, those that are gone, and the options of its driver."""
        request = self.request
        return CampaignCells(
            campaign=self.name,
            file=str(Path(request.file).absolute()),
            cells=tuple(each.runs for each in self.cells),
            gone=self.gone + self.long_gone,
            address=request.address,
            data_root=None if request.data_root is None else str(Path(request.data_root).absolute()),
            max_concurrent_trials=request.max_concurrent_trials,
            redone=self.redone,
            tracking=request.tracking,
            tracking_uri=request.tracking_uri,
            code=tuple(dict.fromkeys(name for cell in self.cells for spec in cell.specs for name in spec.code)),
        )

    def require_all(self) -> None:
        """Raise an `InputError` with a line for each fault of a cell; one of several cells is said once."""
        titles: dict[str, list[str]] = {}
        for cell in self.refused:
            for fault in cell.faults:
                titles.setdefault(fault, []).append(cell.title)
        if titles:
            raise InputError(*(of_cells(fault, self.request.file, cells) for fault, cells in titles.items()))


def plan_campaign(request: CampaignRequest) -> CampaignPlan:
    """Return the plan of a campaign whose file and cells are right. Nothing is started.

    Raises:
        InputError: If anything is wrong, with file, cell and option, or if a cell has started with other options.
    """
    plan = plan_with_refusals(request)
    plan.require_all()
    return plan


def plan_with_refusals(request: CampaignRequest) -> CampaignPlan:
    """Return the plan of a campaign, with the cells that are refused. Nothing is started or written.

    Raises:
        InputError: If the file is wrong, with all that is wrong with the cells of its other entries, if it names code
            that is not allowed, if a cell to start anew is not in it, or if no cluster answers at the address.
    """
    if request.address is not None:
        require_reachable(request.address)  # it is no fault of a cell
    faults = Faults()
    with faults:
        file = read_campaign(request.file)
    if faults and (rest := read_remainder(request.file)) is not None:
        with faults:
            # Runs that were made with what is wrong now differ from the rest.
            anew = [cell.title for cell in rest.cells]
            _preview(rest, replace(request, redo=anew)).require_all()
    faults.raise_all()
    return _preview(file, request)


def _preview(file: CampaignFile, request: CampaignRequest) -> CampaignPlan:
    require_allowed(code := [name for cell in file.cells for name in cell.user_code_names])
    require_current(code)
    request = replace(request, tracking_uri=checked_uri(request.tracking_uri))
    storage = open_storage(request.storage, write=False)
    directory = storage.campaign(file.name)
    kept = read_cells(directory) if directory.exists() else None
    known = {} if kept is None else {each.title: each for each in kept.gone[::-1] + kept.cells}
    if kept is not None:  # cells that have not begun are driven like those that have
        request = replace(request, **{name: getattr(kept, name) for name in KEPT if getattr(request, name) is None})
    titles = [cell.title for cell in file.cells]
    for title in request.redo:
        if title not in titles:
            raise InputError(f"--redo {title}: the campaign has no such cell; it has {', '.join(titles)}")
    redone = () if kept is None or not request.redo else kept.redone
    planner = _Planner(request, storage, file.name)
    rows: list[CellPlan | RefusedCell] = []
    first: dict[tuple[str, str], str] = {}
    for cell in file.cells:
        try:
            planned = planner.planned(cell, known.get(cell.title), redone)
            of = (planned.runs.benchmark, planned.runs.method)
            if (other := first.setdefault(of, cell.title)) != cell.title:
                raise InputError(f"is {other} once more: both are {of[1]} on {of[0]}")
            rows.append(planned)
        except InputError as error:
            rows.append(RefusedCell(cell.title, tuple(error.args)))
    cells, earlier = ((), ()) if kept is None else (kept.cells, kept.gone)
    gone, long_gone = (tuple(each for each in runs if each.title not in titles) for runs in (cells, earlier))
    # A cell that is redone under another protocol leaves the files of the first one, which is another benchmark.
    now = {each.title: each.runs.benchmark for each in rows if isinstance(each, CellPlan)}
    long_gone += tuple(each for each in cells + earlier if now.get(each.title, each.benchmark) != each.benchmark)
    redone = tuple(dict.fromkeys((*redone, *request.redo)))
    known_of = (kept, redone, request, planner.opening, planner.gpus)
    return CampaignPlan(file.name, storage, directory, tuple(rows), gone, long_gone, *known_of)


def work_left(plan: CampaignPlan) -> str:
    """Return the trials and seeds that the cells of a campaign have left, of all where some have ended, in words."""
    left = [sum(each) for each in zip(*(cell.status.left for cell in plan.cells), strict=True)] or [0, 0]
    asked = [sum(cell.status.trials for cell in plan.cells), sum(cell.runs.seeds for cell in plan.cells)]
    nouns = {cell.training.spec.trial_noun for cell in plan.cells}
    trials, seeds = (
        counted(number, noun) if number == of else f"{number} of {counted(of, noun)}"
        for number, of, noun in zip(left, asked, ("trial", max(nouns, default="seed")), strict=True)
    )
    return f"{trials} to search, {seeds} to train"


class _Planner:
    """Plans cells and opens each benchmark once."""

    def __init__(self, request: CampaignRequest, storage: Storage, campaign: str) -> None:
        self.request = request
        self.storage = storage
        self.campaign = campaign
        self.opening = cache(open_benchmark)
        self.gpus = asked_once(gpus_at)
        self.bf16 = asked_once(bf16_at)

    def planned(self, cell: CellConfig, known: CellRuns | None, redone: Sequence[str]) -> CellPlan:
        """Return the plan of a cell. One that is to start anew goes on if it is one of the `redone`."""
        anew = cell.title in self.request.redo
        if anew and cell.title in redone:
            with suppress(InputError):  # it was started otherwise
                begun = self._plan(cell, known, anew=False)
                runs = [plan.directory for plan in (begun.search, begun.training) if plan.exists]
                if not any(has_run_other_code(read_spec(run)) for run in runs):
                    return begun
        return self._plan(cell, known, anew=anew)

    def _plan(self, cell: CellConfig, known: CellRuns | None, *, anew: bool) -> CellPlan:
        searched, stem = cell.search is not None, self._stem(cell, known, anew=anew)
        final = f"{stem}-final" if known is None or anew else known.final
        name = stem if searched else final
        asked = {**shared_options(self.request), **cell.protocol, **(cell.search or {}), "name": name}
        search = replace(self._search(cell, final, asked), may_extend=True)
        training = self._training(cell, final, search)
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
        planned = CellPlan(cell, runs, search, training, read_cell_status(self.storage, runs))
        begun = None if known is None or anew or known.search is None else known.search
        if not searched and begun is not None and not training.exists and self.storage.run_exists(begun):
            said = f"the search {begun!r} has begun, and the file asks for none now"
            raise InputError(f"{said}; to start the cell anew: --redo {cell.title}")
        return with_options_of_existing_runs(planned, self.request, self.opening, self.gpus)

    def _search(self, cell: CellConfig, final: str, asked: Mapping[str, Any]) -> Plan[SearchSpec]:
        """Return the plan of a cell's search; what is wrong with it is said together with its final run's faults."""
        faults = Faults()
        with faults, at_place("search", {**cell.protocol, **(cell.search or {})}):
            request = SearchRequest(cell.benchmark, cell.method, **asked)
            return plan_search(request, self.opening, gpus=self.gpus, bf16=self.bf16, write=False)
        with faults:
            self._check_training(cell, final)
        faults.raise_all()
        raise AssertionError("the search has a fault")

    def _check_training(self, cell: CellConfig, final: str) -> None:
        """Check the final run of a cell at the start of the method's own space."""
        final = self.storage.free_name(final)  # an earlier one has its search's faults of images
        usual = {**shared_options(self.request), **cell.protocol, "name": final}
        try:
            asked = SearchRequest(cell.benchmark, cell.method, **usual)
            search = plan_search(asked, self.opening, gpus=self.gpus, bf16=self.bf16, write=False)
        except ValueError:  # a fault of what both share, which the search has, too
            return
        self._training(cell, final, search)

    def _training(self, cell: CellConfig, final: str, search: Plan[SearchSpec]) -> Plan[FinalSpec]:
        """Return the plan of a cell's final run at the start of its search."""
        best = unsearched_best_file(search.spec)
        with at_place("train", cell.train):
            return training_plan(cell, final, best, self.request, self.opening, self.gpus)

    def _stem(self, cell: CellConfig, known: CellRuns | None, *, anew: bool) -> str:
        """Return the prefix of the names of a cell's runs: the known one, or a new one for `--redo`."""
        if known is not None and not anew:
            return stem_of(known.final)
        stem = f"{self.campaign}-{cell.title.replace('/', '-')}"
        checked_name(f"{stem}-1-final-1")  # that of a final run of a later choice, once it was started anew
        return self.storage.free_name(stem, ("", "-final")) if anew else stem  # not each cell has a search
