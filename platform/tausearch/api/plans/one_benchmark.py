"""Plan a search on one benchmark; what is wrong with its request is said at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tausearch import studies
from tausearch.api.benchmarks import OpenBenchmark, Opening, images_then_weights, with_images_compared
from tausearch.api.plans.new_runs import benchmark_text, given_fields, n_steps, requested_backbone, space_on
from tausearch.api.plans.trial_counts import trial_count
from tausearch.api.requests import SearchRequest
from tausearch.cluster import ASKED_PRECISIONS, may_use_gpu, precision_to_plan, require_pilot
from tausearch.runs import (
    Constraint,
    Objective,
    Plan,
    RunDirectory,
    SearchSpec,
    StopRule,
    Storage,
    open_storage,
    protocol_of,
)
from trainables.backbones import EMBEDDED, Backbone
from trainables.config import Precision
from trainables.data import reference
from trainables.errors import Faults, NoTasksError
from trainables.methods import MethodEntry, get_method

_FEW = 100  # validation images, one of which is a point or more


def plan_one(
    request: SearchRequest, opening: Opening, earlier: RunDirectory | None, *, write: bool = True
) -> Plan[SearchSpec]:
    """Return the plan of a search on one benchmark, whose device is chosen afterwards; it may continue an earlier one.

    What is wrong is said at once, as far as one part can be checked without another. Words come before images, and
    images before the weights, which are not downloaded if an image is broken. Missing tasks are said with both.
    """
    options = _check_options(request, opening, begun=earlier is not None, write=write)
    entry, opened = options.entry, options.opened
    backbone = requested_backbone(request, opened)
    scenario = entry.scenario(opened.source.spec, backbone)
    space = space_on(request, entry, opened, scenario, earlier)
    studies.require_runs(entry, space, scenario)
    known = studies.kept_points(request.warm_start or (), earlier, space.space)
    if known is None:
        known = studies.known_points(
            request.warm_start or (),
            space,
            open_storage(request.storage, write=False),
            lambda hyperparameters: entry.validate(entry.parse(hyperparameters), scenario),
            grid=request.algorithm == "grid",
        )
    points = studies.point_count(request.algorithm, space.space, known)
    trials = trial_count(request.trials, request.algorithm, points, space)
    reads = backbone.input
    usable, protocol = images_then_weights(
        lambda: opened.require("search", request.seed, reads),
        backbone,
        lambda: protocol_of(opened.source.spec, request.seed, backbone, options.precision),
    )
    few = opened.ref.is_own and usable.data.evaluation <= _FEW
    usual = studies.usual_reevaluation(opened.embedded and backbone.name == EMBEDDED, few, trials)
    spec = SearchSpec(
        **options.given,
        protocol=protocol,
        data=usable.data,
        tasks=opened.source.spec.named_tasks,
        trials=trials,
        algorithm=request.algorithm,
        sampler_options=dict(request.sampler_options or {}),
        scheduler=request.scheduler,
        pruner_options=dict(request.pruner_options or {}),
        seed=request.seed,
        space=space.space,
        start=space.start,
        warm_start=known,
        warm_start_from=tuple(map(str, request.warm_start or ())),
        constraints=options.constraints,
        objectives=options.objectives,
        prefer=options.prefer,
        reevaluate=studies.requested_reevaluation(request.reevaluate, request.reevaluate_runs, trials, usual),
        stop=StopRule(patience=request.patience, target=request.target),
        fixed=space.fixed,
        left_out=usable.left_out,
    )
    studies.require_sampler(spec)
    plan = Plan(spec, options.storage, named=request.name is not None, resume_if_exists=request.resume_if_exists)
    return with_images_compared(plan, lambda _: opened)


@dataclass(frozen=True)
class _CheckedOptions:
    """The options of a request for a search on one benchmark, with `given`, fields of its specification."""

    entry: MethodEntry
    opened: OpenBenchmark
    precision: Precision
    storage: Storage
    given: dict[str, Any]
    constraints: tuple[Constraint, ...]
    objectives: tuple[Objective, ...]
    prefer: str


def _check_options(request: SearchRequest, opening: Opening, *, begun: bool, write: bool) -> _CheckedOptions:
    """Check what can be checked without images and weights; raises one `InputError` with all that is wrong."""
    faults, entry, opened = Faults(), None, None
    with faults:
        entry = get_method(request.method)
        studies.require_hyperparameters(entry, request.set or {})
    with faults:
        require_pilot(request.gpus_per_trial, request.address)
    with faults:
        studies.algorithm_named(request.algorithm)
    with faults:
        studies.pruner_class(request.scheduler)
    with faults:
        asked = studies.one_of("precision", request.precision, ASKED_PRECISIONS)
        precision = precision_to_plan(asked, may_use_gpu(request.gpus_per_trial, request.address))
    with faults:
        opened = opening(benchmark_text(request), request.data_root)
    with faults:
        _ = Backbone(request.backbone or EMBEDDED).input  # refuses an unknown backbone
    if entry is None or opened is None:
        _raise_option_faults(faults, request, opening)
    with faults:
        storage, given = given_fields(request, "search", opened, entry, write=write)
    with faults:  # what suits the images is added once they are known
        file = None if request.space is None else Path(request.space)
        grid = request.algorithm == "grid"
        studies.space_of(entry.name, opened.ref.name, file, request.set or {}, grid=grid)
    with faults:
        steps, options = n_steps(entry, opened), request.pruner_options or {}
        studies.require_scheduler(request.scheduler, request.algorithm, steps, options, begun=begun)
    with faults:
        on_gpu = may_use_gpu(request.gpus_per_trial, request.address)
        constraints = studies.constraints_named(request.constraint or (), entry, opened.source.num_tasks, on_gpu)
    with faults:
        objectives, prefer = studies.objectives_named(
            request.objective or (), request.prefer, entry, opened.source.num_tasks, on_gpu
        )
        studies.require_alone(objectives, request.scheduler, request.patience, request.target)
    faults.raise_all()
    return _CheckedOptions(entry, opened, precision, storage, given, constraints, objectives, prefer)


def _raise_option_faults(faults: Faults, request: SearchRequest, opening: Opening) -> NoReturn:
    """Raise what is wrong with options without a method or benchmark. If tasks alone are missing, check images, too."""
    try:
        faults.raise_all()
    except NoTasksError:
        with faults:
            opened = opening(str(reference(benchmark_text(request)).with_options(tasks=1)), request.data_root)
            backbone = requested_backbone(request, opened)
            reads = backbone.input
            images_then_weights(
                lambda: opened.require("search", request.seed, reads), backbone, lambda: backbone.digest
            )
        faults.raise_all()
    raise AssertionError("a method or a benchmark is missing, and no fault says so")
