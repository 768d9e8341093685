"""Compose the task vectors of final runs: checked, evaluated, kept, exported; and the paper's protocol of editing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tausearch.api.exporting import loadable, register_composed
from tausearch.api.opening import open_pools
from tausearch.api.requests import ComposeRequest, EditRequest, with_fields_of
from tausearch.composing import (
    LINEAR,
    CompositionResult,
    EditResult,
    Pools,
    Rule,
    chosen_forms,
    edit_pools,
    evaluate,
    evaluations,
    export,
    require_empty,
    try_to_record,
    weighing_of,
)
from tausearch.runs import RunDirectory, RunSpec, Storage, nothing_left, open_storage
from tausearch.screen import LongWork
from tausearch.tracking import Version
from trainables.composition import RULES
from trainables.errors import InputError

DEFAULT_DENSITY = 0.2  # what TIES keeps in its paper


@dataclass(frozen=True)
class Composed:
    """A composition that has been evaluated.

    Attributes:
        result: Accuracies of each seed.
        file: Where they lie; None for exported vectors, which have no run to keep it in.
        exported: Form to the folder that it was written to.
        tracking_error: Why MLflow could not be written; None if it was, or there is no run.
        version: Of the benchmark's registered model in MLflow, if one was asked for.
    """

    result: CompositionResult
    file: Path | None
    exported: dict[str, str] = field(default_factory=dict)
    tracking_error: str | None = None
    version: Version | None = None


@dataclass(frozen=True)
class Edited:
    """The paper's protocol on one run; see `Composed`."""

    result: EditResult
    file: Path | None
    tracking_error: str | None = None


@with_fields_of(ComposeRequest)
def compose(request: ComposeRequest) -> Composed:
    """Compose task vectors on theta_0 and evaluate on the test split of the final run.

    Takes the fields of `ComposeRequest`.

    Returns:
        Accuracy on each task, over the logits of all classes, of every seed.

    Raises:
        InputError: Before any work, if something in the request is wrong, or the vectors do not fit together.
    """
    rule = _rule(request.rule, request.density)
    if request.export is not None:
        require_empty(Path(request.export))
    elif request.forms and not request.register:
        raise InputError("--form: says what to export, so it goes with --export FOLDER or --register alone")
    storage = open_storage(request.storage, write=False)
    pools = open_pools(storage, request.runs, request)
    weighing = weighing_of(
        pools.tasks,
        keep=request.keep,
        drop=request.drop,
        coefficient=request.coefficient,
        weights=request.weights,
    )
    forms = chosen_forms(request.forms, pools, weighing, rule)
    home = _home(pools)
    if request.register and home is None:
        raise InputError("--register: needs a final run of this storage; exported vectors have none")
    with nothing_left(None if request.export is None else Path(request.export)), LongWork() as work:
        tick = work.start(weighing.label, pools.tasks * len(pools.by_seed))
        result = evaluate(pools, weighing, rule, tick)
        exported = {}
        if request.export is not None:
            written = work.start("export", len(forms) * len(pools.by_seed))
            exported = export(Path(request.export), forms, pools, weighing, rule, result, written)
    if request.register:
        result = result.model_copy(update={"registered": forms if request.forms else loadable(forms)})
    file, tracking_error = _keep(storage, home, result)
    version = None
    if request.register and home is not None:
        if tracking_error is not None:
            raise InputError(f"--register: MLflow cannot be written ({tracking_error}); `sync` makes up for it")
        version = register_composed(*home, storage, pools, result)
    return Composed(result, file, exported, tracking_error, version)


@with_fields_of(EditRequest)
def edit(request: EditRequest) -> list[Edited]:
    """Run the paper's protocol on final runs: specialisation, and unlearning of each task in three readings.

    Takes the fields of `EditRequest`.

    Returns:
        What each run came to, in the order of the request.

    Raises:
        InputError: Before any work on a run, if something is wrong with it.
    """
    storage = open_storage(request.storage, write=False)
    opened = [open_pools(storage, [name], request) for name in request.runs]
    return [_edit(storage, pools) for pools in opened]


def _rule(name: str, density: float | None) -> Rule:
    if name == LINEAR:
        if density is not None:
            raise InputError("--density: says what a merging rule keeps, so it does not go with --rule linear")
        return Rule()
    if name not in RULES:
        raise InputError(f"unknown rule {name!r}; allowed: {', '.join((LINEAR, *RULES))}")
    if density is not None and not 0 < density <= 1:
        raise InputError(f"--density must be above 0 and at most 1, got {density:g}")
    return Rule(name, DEFAULT_DENSITY if density is None else density)


def _edit(storage: Storage, pools: Pools) -> Edited:
    with LongWork() as work:
        tick = work.start(f"edit {pools.sources[0].text}", evaluations(pools.tasks, len(pools.by_seed)))
        result = edit_pools(pools, tick)
    return Edited(result, *_keep(storage, _home(pools), result))


def _home(pools: Pools) -> tuple[RunSpec, RunDirectory] | None:
    """Return the run that keeps what is found out: the first that it is of."""
    for source in pools.sources:
        if source.directory is not None and source.spec is not None:
            return source.spec, source.directory
    return None


def _keep(
    storage: Storage, home: tuple[RunSpec, RunDirectory] | None, result: CompositionResult | EditResult
) -> tuple[Path | None, str | None]:
    """Write a result to its run and to MLflow; returns its file, and why MLflow could not be written."""
    if home is None:
        return None, None
    spec, directory = home
    try:
        file = result.save(directory)
    except OSError as error:
        raise InputError(f"{directory.compositions}: cannot be written ({error.strerror})") from error
    return file, try_to_record(spec, directory, storage, result)
