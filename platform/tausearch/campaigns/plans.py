"""Check a campaign and all of its cells before any work starts, and plan their runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar

from checked_input.names import counted
from tausearch.api import (
    DriveRequest,
    Opening,
    SearchRequest,
    TrainRequest,
    open_benchmark,
    plan_search,
    plan_training,
)
from tausearch.campaigns.cells import KEPT, CampaignCells, CellRuns, read_cells
from tausearch.campaigns.faults import at_place, of_cells
from tausearch.campaigns.file import CampaignFile, CellConfig, read_campaign, read_remainder
from tausearch.campaigns.status import CellStatus, options_of, read_cell_status
from tausearch.cluster import GpusAt, asked_once, bf16_at, gpus_at, require_reachable
from tausearch.presentation import print_notices
from tausearch.runs import (
    AnySpec,
    CampaignDirectory,
    FinalSpec,
    Plan,
    SearchSpec,
    Storage,
    open_storage,
    read_spec,
    reevaluations_of,
    without_newer,
)
from tausearch.studies import BestFile, best_of_run, unsearched_best_file
from tausearch.tracking import checked_uri
from trainables.errors import Faults, InputError
from trainables.user_code import changed, digests_of, require_allowed, require_current

# Fields of a final run that follow from the choice.
_CHOSEN = ("fixed", "source", "source_id", "tuned_on", "measure_removability")
Spec = TypeVar("Spec", SearchSpec, FinalSpec)


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
class CellPlan:
    """A cell whose search and final run have been checked.

    Attributes:
        config: The cell as the file describes it.
        runs: The names of its runs, and their sizes.
        search: The plan of its search; a cell that is not searched has the plan of the search that it leaves out.
        training: The plan of its final run before a search has chosen: at the start of the space.
        status: The state of its runs.
    """

    config: CellConfig
    runs: CellRuns
    search: Plan[SearchSpec]
    training: Plan[FinalSpec]
    status: CellStatus

    @property
    def title(self) -> str:
        """The title of the cell: `digits/ita-lora`."""
        return self.runs.title

    @cached_property
    def added(self) -> int:
        """Number of trials that its search gets beyond those that it was started with."""
        return self.search.added if self.config.search is not None else 0

    @cached_property
    def added_seeds(self) -> int:
        """Number of seeds that its final run gets beyond those that it was started with."""
        return self.training.added

    @property
    def state(self) -> str:
        """The state of its runs in a word; "to extend" where they have ended, and the file asks for more."""
        runs = [run for run in (self.status.search, self.status.final) if run is not None]
        grown = bool(self.added or self.added_seeds) and all(run.state == "finished" for run in runs)
        return "to extend" if grown else self.status.state

    @property
    def next(self) -> str:
        """What a driver of the campaign would do, in a few words; of a cell that grows, how many trials and seeds."""
        if self.status.state != "failed" and (self.added or self.added_seeds):
            trials, seeds = self.status.left  # those that were interrupted run, too
            more = [(trials, "trial"), (0 if self.status.final is None else seeds, "seed")]
            return " and ".join(f"{counted(count, noun)} more" for count, noun in more if count)
        words = {"waiting": "start", "done": "nothing", "failed": "nothing"}
        return words.get(self.status.state, "go on")

    @property
    def devices(self) -> list[str]:
        """The devices of its trials and seeds in words, each once; empty where there is no GPU to speak of."""
        plans: list[Plan[Any]] = [*([] if self.config.search is None else [self.search]), self.training]
        return [
            device for device in dict.fromkeys(plan.spec.planned_device(pilot=plan.pilot) for plan in plans) if device
        ]

    @property
    def specs(self) -> list[AnySpec]:
        """The specifications of its runs, in order."""
        return [*([] if self.config.search is None else [self.search.spec]), self.training.spec]


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
        opening: Opens each benchmark once, so that it is checked once.
        gpus: Joins the cluster once, to ask for its GPUs.
    """

    name: str
    storage: Storage
    directory: CampaignDirectory
    rows: tuple[CellPlan | RefusedCell, ...]
    gone: tuple[CellRuns, ...]
    long_gone: tuple[CellRuns, ...]
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
            redone=tuple(request.redo),
            tracking=request.tracking,
            tracking_uri=request.tracking_uri,
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
    planner = _Planner(request, storage, file.name)
    rows: list[CellPlan | RefusedCell] = []
    first: dict[tuple[str, str], str] = {}
    for cell in file.cells:
        try:
            planned = planner.planned(cell, known.get(cell.title), () if kept is None else kept.redone)
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
    known_of = (planner.opening, planner.gpus)
    return CampaignPlan(file.name, storage, directory, tuple(rows), gone, long_gone, request, *known_of)


def work_left(plan: CampaignPlan) -> str:
    """Return the trials and seeds that the cells of a campaign have left, of all where some have ended, in words."""
    left = [sum(each) for each in zip(*(cell.status.left for cell in plan.cells), strict=True)] or [0, 0]
    asked = [sum(cell.status.trials for cell in plan.cells), sum(cell.runs.seeds for cell in plan.cells)]
    trials, seeds = (
        counted(number, noun) if number == of else f"{number} of {counted(of, noun)}"
        for number, of, noun in zip(left, asked, ("trial", "seed"), strict=True)
    )
    return f"{trials} to search, {seeds} to train"


def plan_final(planned: CellPlan, request: CampaignRequest, opening: Opening, gpus: GpusAt) -> Plan[FinalSpec]:
    """Return the plan of the final run of a cell whose search has chosen.

    A final run of an earlier choice is left alone. The plan has a new name, or that of a run of the same choice.

    Raises:
        InputError: If it cannot be run, or has been started otherwise.
    """
    if planned.config.search is None:
        return planned.training
    # After a kill, the best file may be that of an earlier choice until the search is concluded.
    best = best_of_run(planned.search.storage, planned.search.spec.name, print_notices)

    def named(name: str) -> Plan[FinalSpec]:
        asked = _training(planned.config, name, best, request)
        return replace(plan_training(asked, opening, gpus=gpus, write=False), may_extend=True)

    plan = named(planned.runs.final)
    if plan.exists and _has_chosen_otherwise(read_spec(plan.directory), plan.spec):
        plan = named(_trained_before(plan) or plan.storage.free_name(f"{_stem_of(plan.spec.name)}-final"))
    return with_share_of(planned.training, plan)


def _trained_before(plan: Plan[FinalSpec]) -> str | None:
    """Return the name of the cell's final run, of an earlier choice, that is exactly the planned one; None without one.

    A new run would start with the user's code of now, so that is what it must have run.
    """
    for run in plan.storage.runs():
        if _stem_of(run.name) == _stem_of(plan.spec.name):
            with suppress(InputError):  # it differs, or cannot be read
                same = replace(plan, spec=plan.spec.model_copy(update={"name": run.name})).continued()
                if not _has_run_other_code(same):
                    return run.name
    return None


def _has_run_other_code(earlier: AnySpec) -> bool:
    """Whether the user's code has changed since a run last started."""
    return bool(changed(earlier.code_digests, digests_of(earlier.user_code_names, in_workers=True)))


def with_share_of(first: Plan[Any], plan: Plan[Spec]) -> Plan[Spec]:
    """Return a plan that a pilot would measure with the share that another run has."""
    if not plan.pilot:
        return plan
    return replace(plan, spec=plan.spec.model_copy(update={"resources": first.spec.resources}), pilot=False)


def _with_choice_of(earlier: AnySpec, plan: Plan[FinalSpec]) -> Plan[FinalSpec]:
    """Return the plan of a final run with the configuration that an earlier choice has given it."""
    chosen = {name: getattr(earlier, name) for name in _CHOSEN if hasattr(earlier, name)}
    return replace(plan, spec=plan.spec.model_copy(update=chosen))


def _has_chosen_otherwise(earlier: AnySpec, now: FinalSpec) -> bool:
    """Whether a final run has other hyperparameters only because the search has chosen others since."""
    alike = isinstance(earlier, FinalSpec) and earlier.overrides == now.overrides
    return alike and earlier.fixed != without_newer(now, earlier)


def _stem_of(final: str) -> str:
    """Return the name of a cell's search, for that of its final run."""
    return re.sub(r"-final(-[0-9]+)?$", "", final)


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
        """Return the plan of a cell. One that is to start anew goes on if the last driver has done so; see `redone`."""
        anew = cell.title in self.request.redo
        if anew and cell.title in redone:
            with suppress(InputError):  # it was started otherwise
                begun = self._plan(cell, known, anew=False)
                runs = [plan.directory for plan in (begun.search, begun.training) if plan.exists]
                if not any(_has_run_other_code(read_spec(run)) for run in runs):
                    return begun
        return self._plan(cell, known, anew=anew)

    def _plan(self, cell: CellConfig, known: CellRuns | None, *, anew: bool) -> CellPlan:
        searched, stem = cell.search is not None, self._stem(cell, known, anew=anew)
        final = f"{stem}-final" if known is None or anew else known.final
        name = stem if searched else final
        asked = {**_shared_options(self.request), **cell.protocol, **(cell.search or {}), "name": name}
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
        return _with_options_of_existing_runs(planned, self.request, self.opening, self.gpus)

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
        usual = {**_shared_options(self.request), **cell.protocol, "name": final}
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
            plan = plan_training(_training(cell, final, best, self.request), self.opening, gpus=self.gpus, write=False)
        return replace(plan, may_extend=True)

    def _stem(self, cell: CellConfig, known: CellRuns | None, *, anew: bool) -> str:
        """Return the prefix of the names of a cell's runs: the known one, or a new one for `--redo`."""
        if known is not None and not anew:
            return _stem_of(known.final)
        stem = f"{self.campaign}-{cell.title.replace('/', '-')}"
        return self.storage.free_name(stem, ("", "-final")) if anew else stem  # not each cell has a search


def _shared_options(request: CampaignRequest) -> dict[str, Any]:
    """Return the options that all runs of a campaign share."""
    shared = {name: getattr(request, name) for name in (*KEPT, "storage", "address")}
    return {**shared, "resume_if_exists": True}


def _training(cell: CellConfig, name: str, best: BestFile, request: CampaignRequest) -> TrainRequest:
    return TrainRequest(best, name=name, **{**_shared_options(request), **cell.train})


def _require_alike(planned: CellPlan, earlier: AnySpec) -> None:
    """Refuse a final run without its search, or one that is to have none now."""
    source = earlier.source if isinstance(earlier, FinalSpec) else None
    if planned.config.search is not None:
        raise InputError(
            f"run {earlier.name!r} was trained without a search"
            if source is None
            else f"run {earlier.name!r} was trained after the search {source!r}, which is gone"
        )
    if source is not None:
        raise InputError(
            f"run {earlier.name!r} was trained after the search {source!r}, and the file asks for none now"
        )


def _advice(planned: CellPlan) -> str:
    """Return the options that keep a search with more trials or another re-evaluation, given by hand; else nothing."""
    plan = planned.search
    if planned.config.search is None or not plan.exists:
        return ""
    known, now = read_spec(plan.directory), plan.spec.reevaluate
    if not isinstance(known, SearchSpec) or known.trials < plan.spec.trials:
        return ""
    again = known.reevaluate
    by_hand = again is not None and (now is None or (again.best, again.runs) != (now.best, now.runs))
    if known.trials == plan.spec.trials and not by_hand:
        return ""
    same = {name: getattr(known, name) for name in ("trials", "reevaluate")}
    try:
        replace(plan, spec=plan.spec.model_copy(update=same)).continued()
    except InputError:
        return ""
    options = [options_of(known)] if known.trials > plan.spec.trials else []
    kept = f"{known.trials} trials" if options else "re-evaluation"
    if again is not None and by_hand:
        options.append(f"reevaluate: {again.best}, reevaluate_runs: {again.runs}")
    return f"; to keep its {kept}, write {', '.join(options)} for this cell"


def _with_options_of_existing_runs(
    planned: CellPlan, request: CampaignRequest, opening: Opening, gpus: GpusAt
) -> CellPlan:
    """Return a cell, with a new final run if its search has chosen otherwise since; refuse one with other options.

    A search that is not over may choose otherwise still, so its cell keeps the final run until then, and only its other
    options are compared.

    Raises:
        InputError: If the cell has started with other options; it names them.
    """
    search = planned.status.search
    try:
        if planned.config.search is not None and planned.search.exists:
            planned.search.continued()
        elif planned.training.exists:
            _require_alike(planned, read_spec(planned.training.directory))
        over = planned.config.search is None or (
            search is not None and search.state == "finished" and not planned.added
        )
        if not planned.training.exists:
            return planned
        if not over:
            _with_choice_of(read_spec(planned.training.directory), planned.training).continued()
            return planned
        final = plan_final(planned, request, opening, gpus)
        if final.exists:
            final.continued()
    except InputError as error:
        raise InputError(f"{error}{_advice(planned)}; to start the cell anew: --redo {planned.config.title}") from error
    if final.spec.name == planned.runs.final:
        return planned
    runs = planned.runs.model_copy(update={"final": final.spec.name})
    return replace(planned, runs=runs, training=final, status=read_cell_status(final.storage, runs))
