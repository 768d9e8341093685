"""The plans of a cell: its search, and its final run before and after the search has chosen."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from checked_input.names import counted
from tausearch.api import DriveRequest, Opening, TrainRequest, plan_training
from tausearch.campaigns.cells import KEPT, CellRuns
from tausearch.campaigns.file import CellConfig
from tausearch.campaigns.status import CellStatus, options_of, read_cell_status
from tausearch.cluster import GpusAt
from tausearch.presentation import print_notices
from tausearch.runs import AnySpec, FinalSpec, Plan, SearchSpec, read_spec, without_newer
from tausearch.studies import BestFile, best_of_run
from trainables.errors import InputError
from trainables.user_code import changed, digests_of

# Fields of a final run that follow from the choice.
_CHOSEN = ("fixed", "source", "source_id", "tuned_on", "measure_removability")
Spec = TypeVar("Spec", SearchSpec, FinalSpec)


@dataclass(frozen=True)
class CellPlan:
    """A cell whose search and final run have been checked."""

    config: CellConfig  # the cell as the file describes it
    runs: CellRuns  # the names of its runs, and their sizes
    search: Plan[SearchSpec]  # of a cell that is not searched: the plan of the search that it leaves out
    training: Plan[FinalSpec]  # of its final run before a search has chosen: at the start of the space
    status: CellStatus  # the state of its runs

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


def plan_final(planned: CellPlan, request: DriveRequest, opening: Opening, gpus: GpusAt) -> Plan[FinalSpec]:
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
        return training_plan(planned.config, name, best, request, opening, gpus)

    plan = named(planned.runs.final)
    if plan.exists and _has_chosen_otherwise(read_spec(plan.directory), plan.spec):
        plan = named(_trained_before(plan) or plan.storage.free_name(f"{stem_of(plan.spec.name)}-final"))
    return with_share_of(planned.training, plan)


def _trained_before(plan: Plan[FinalSpec]) -> str | None:
    """Return the name of the cell's final run, of an earlier choice, that is exactly the planned one; None without one.

    A new run would start with the user's code of now, so that is what it must have run.
    """
    for run in plan.storage.runs():
        if stem_of(run.name) == stem_of(plan.spec.name):
            with suppress(InputError):  # it differs, or cannot be read
                same = replace(plan, spec=plan.spec.model_copy(update={"name": run.name})).continued()
                if not has_run_other_code(same):
                    return run.name
    return None


def has_run_other_code(earlier: AnySpec) -> bool:
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


def stem_of(final: str) -> str:
    """Return the name of a cell's search, for that of its final run."""
    return re.sub(r"-final(-[0-9]+)?$", "", final)


def shared_options(request: DriveRequest) -> dict[str, Any]:
    """Return the options that all runs of a campaign share."""
    shared = {name: getattr(request, name) for name in (*KEPT, "storage", "address")}
    return {**shared, "resume_if_exists": True}


def training_plan(
    cell: CellConfig, name: str, best: BestFile, request: DriveRequest, opening: Opening, gpus: GpusAt
) -> Plan[FinalSpec]:
    """Return the plan of a cell's final run with the configuration of a best file."""
    asked = TrainRequest(best, name=name, **{**shared_options(request), **cell.train})
    return replace(plan_training(asked, opening, gpus=gpus, write=False), may_extend=True)


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


def with_options_of_existing_runs(planned: CellPlan, request: DriveRequest, opening: Opening, gpus: GpusAt) -> CellPlan:
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
