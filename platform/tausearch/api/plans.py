"""Check a request before any work starts, and plan the run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from checked_input.bounds import TRIALS
from checked_input.names import choices, counted
from search_spaces import ResolvedSpace
from tausearch import studies
from tausearch.api.benchmarks import FaultsOfEach, OpenBenchmark, Opening, images_then_weights, open_benchmark
from tausearch.api.requests import SearchRequest, TrainRequest, allow_named
from tausearch.api.tasks import class_order_of, tasks_of
from tausearch.cluster import (
    ASKED_PRECISIONS,
    Bf16At,
    GpusAt,
    bf16_at,
    gpus_at,
    may_use_gpu,
    placed,
    plan_resources,
    precision_to_plan,
    require_cpu_has,
    require_pilot,
)
from tausearch.runs import (
    ACROSS,
    AnySpec,
    Constraint,
    ExperimentProtocol,
    FinalSpec,
    Objective,
    Plan,
    RunDirectory,
    SearchSpec,
    StopRule,
    Storage,
    TrackerName,
    new_run,
    open_storage,
    protocol_of,
    read_spec,
)
from tausearch.tracking import checked_tracking, checked_uri, tracking_text
from trainables.backbones import EMBEDDED, Backbone
from trainables.config import Precision, Purpose
from trainables.data import reference, split_references
from trainables.errors import Faults, InputError, NoTasksError, faults_of
from trainables.methods import MethodEntry, Scenario, get_method
from trainables.metrics import VALIDATION
from trainables.user_code import file_name

DEFAULT_TRIALS = 12
MOST_GP_TRIALS = 1_000
_FEW = 100  # validation images, one of which is a point or more


def plan_search(
    request: SearchRequest,
    opening: Opening = open_benchmark,
    *,
    gpus: GpusAt = gpus_at,
    bf16: Bf16At = bf16_at,
    write: bool = True,
) -> Plan[SearchSpec]:
    """Return the plan of a search on one benchmark or several whose request is right. Nothing is started.

    A cluster is joined for a moment, after all other checks, if nothing is said about GPUs, or the precision is "auto".

    Args:
        request: The search.
        opening: Opens its benchmarks.
        gpus: Returns the number of GPUs at an address.
        bf16: Returns whether they have bf16.
        write: Whether the storage must have a place for the run.

    Raises:
        InputError: If something in the request or the space is wrong.
    """
    benchmarks = split_references(request.benchmark)
    if len(benchmarks) > 1:
        plan: Plan[SearchSpec] = _plan_several(request, benchmarks, opening)
    elif request.across is not None:
        raise InputError(f"--across {request.across}: goes with several benchmarks, such as digits,glyphs")
    else:
        plan = _plan_one(request, opening, _earlier(request), write=write)
    studies.require_patience(request.patience, plan.spec.trials)
    return placed(plan, request, gpus, auto=bf16 if request.precision == "auto" else None)


def _earlier(request: SearchRequest) -> RunDirectory | None:
    """Return the run directory of the search that a request continues; None if there is none."""
    if not request.resume_if_exists or request.name is None:
        return None
    directory = open_storage(request.storage, write=False).run(request.name)
    return directory if directory.spec_file.is_file() else None


def _plan_one(
    request: SearchRequest, opening: Opening, earlier: RunDirectory | None, *, write: bool = True
) -> Plan[SearchSpec]:
    """Return the plan of a search on one benchmark, whose device is chosen afterwards; it may continue an earlier one.

    What is wrong is said at once, as far as one part can be checked without another. Words come before images, and
    images before the weights, which are not downloaded if an image is broken. Missing tasks are said with both.

    Raises:
        InputError: If something in the request or the space is wrong.
    """
    words = _checked_words(request, opening, write=write)
    entry, opened = words.entry, words.opened
    backbone = _backbone(request, opened)
    scenario = entry.scenario(opened.source.spec, backbone)
    space = _space(request, entry, opened, scenario)
    studies.require_runs(entry, space, scenario)
    known = studies.kept_points(request.warm_start or (), earlier, space.space)
    if known is None:
        known = studies.known_points(
            request.warm_start or (),
            space,
            open_storage(request.storage, write=False),
            lambda hyperparameters: entry.validate(entry.parse(hyperparameters), scenario),
        )
    trials = _trial_count(request.trials, request.algorithm, studies.grid_size(space.space, known), bool(space.space))
    reads = backbone.input
    usable, protocol = images_then_weights(
        lambda: opened.require("search", request.seed, reads),
        backbone,
        lambda: protocol_of(opened.source.spec, request.seed, backbone, words.precision),
    )
    few = opened.ref.is_own and usable.data.evaluation <= _FEW
    usual = studies.usual_reevaluation(opened.embedded and backbone.name == EMBEDDED, few, trials)
    spec = SearchSpec(
        **words.given,
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
        constraints=words.constraints,
        objectives=words.objectives,
        prefer=words.prefer,
        reevaluate=studies.requested_reevaluation(request.reevaluate, request.reevaluate_runs, trials, usual),
        stop=StopRule(patience=request.patience, target=request.target),
        fixed=space.fixed,
        left_out=usable.left_out,
    )
    studies.require_sampler(spec)
    return Plan(spec, words.storage, named=request.name is not None, resume_if_exists=request.resume_if_exists)


@dataclass(frozen=True)
class _Words:
    """The words of a request for a search on one benchmark, with `given`, fields of its specification."""

    entry: MethodEntry
    opened: OpenBenchmark
    precision: Precision
    storage: Storage
    given: dict[str, Any]
    constraints: tuple[Constraint, ...]
    objectives: tuple[Objective, ...]
    prefer: str


def _checked_words(request: SearchRequest, opening: Opening, *, write: bool) -> _Words:
    """Check what can be checked without images and weights; raises one `InputError` with all that is wrong."""
    faults, entry, opened = Faults(), None, None
    with faults:
        entry = get_method(request.method)
        studies.require_hyperparameters(entry, request.set or {})
    with faults:
        require_pilot(request)
    with faults:
        studies.algorithm_named(request.algorithm)
    with faults:
        studies.pruner_class(request.scheduler)
    with faults:
        asked = studies.one_of("precision", request.precision, ASKED_PRECISIONS)
        precision = precision_to_plan(asked, may_use_gpu(request))
    with faults:
        opened = opening(_text_of(request), request.data_root)
    with faults:
        _ = Backbone(request.backbone or EMBEDDED).input  # refuses an unknown backbone
    if entry is None or opened is None:
        _raise_words(faults, request, opening)
    with faults:
        storage, given = _given(request, "search", opened, entry, write=write)
    with faults:  # what suits the images is added once they are known
        file = None if request.space is None else Path(request.space)
        studies.space_of(entry.name, opened.ref.name, file, request.set or {})
    with faults:
        steps, options = _steps(entry, opened), request.pruner_options or {}
        studies.require_scheduler(request.scheduler, request.algorithm, steps, options)
    with faults:
        on_gpu = may_use_gpu(request)
        constraints = studies.constraints_named(request.constraint or (), entry, opened.source.num_tasks, on_gpu)
    with faults:
        objectives, prefer = studies.objectives_named(
            request.objective or (), request.prefer, entry, opened.source.num_tasks, on_gpu
        )
        studies.require_alone(objectives, request.scheduler, request.patience, request.target)
    faults.raise_all()
    return _Words(entry, opened, precision, storage, given, constraints, objectives, prefer)


def _raise_words(faults: Faults, request: SearchRequest, opening: Opening) -> NoReturn:
    """Raise what is wrong with words without a method or a benchmark. If tasks alone are missing, check images, too."""
    try:
        faults.raise_all()
    except NoTasksError:
        with faults:
            opened = opening(str(reference(_text_of(request)).with_options(tasks=1)), request.data_root)
            backbone = _backbone(request, opened)
            reads = backbone.input
            images_then_weights(
                lambda: opened.require("search", request.seed, reads), backbone, lambda: backbone.digest
            )
        faults.raise_all()
    raise AssertionError("a method or a benchmark is missing, and no fault says so")


def _plan_several(request: SearchRequest, benchmarks: Sequence[str], opening: Opening) -> Plan[SearchSpec]:
    """Return the plan of a search on several benchmarks, from the plans that it would have on each alone."""
    faults, plans = FaultsOfEach(len(benchmarks)), []
    with faults:
        _require_several(request, benchmarks)
    alone, earlier = _alone(request), _earlier(request)
    for benchmark in benchmarks:
        with faults.of(benchmark):
            plans.append(_plan_one(replace(alone, benchmark=benchmark), opening, earlier))
    faults.raise_all()
    with faults:
        spec = studies.merged([plan.spec for plan in plans], request.across)
    with faults:
        options = request.pruner_options or {}
        studies.require_scheduler(request.scheduler, request.algorithm, len(benchmarks), options, first_stop=1)
    with faults:
        stem = "-".join(reference(plan.spec.benchmark).slug for plan in plans)[:60].rstrip("-._")
        storage, name = _new_run(request, f"{stem}-{file_name(plans[0].spec.method)}")
    faults.raise_all()
    points = studies.grid_size(spec.space, spec.warm_start)
    kept = studies.kept_points(request.warm_start or (), earlier, spec.space)
    own = {
        "warm_start": spec.warm_start if kept is None else kept,
        "name": name,
        "trials": _trial_count(request.trials, request.algorithm, points, bool(spec.space)),
        "scheduler": request.scheduler,
        "pruner_options": dict(request.pruner_options or {}),
    }
    spec = spec.model_copy(update=own)
    studies.require_sampler(spec)
    return Plan(spec, storage, named=request.name is not None, resume_if_exists=request.resume_if_exists)


NO_BOUNDS = "--with-bounds: with several benchmarks, give it to the final run on each"
ENDS_BY_MEAN = "--patience, --target: with several benchmarks, go with --across mean; other values move"
_ABOUT_ONE = {"task": "task=", "variant": "variant=", "label_column": "label_column="}


def _alone(request: SearchRequest) -> SearchRequest:
    """Return a request without the options that are about several benchmarks, or cannot be about several."""
    seed = request.class_order if isinstance(request.class_order, int) else None
    return replace(
        request,
        name=None,
        resume_if_exists=False,
        scheduler="none",
        pruner_options=None,
        across=None,
        objective=None,
        prefer=None,
        with_bounds=False,
        task=None,
        variant=None,
        label_column=None,
        class_order=seed,
    )


def _require_several(request: SearchRequest, benchmarks: Sequence[str]) -> None:
    """Refuse the options that a search on several benchmarks cannot have, all at once."""
    faults = []
    if request.across is not None and request.across not in ACROSS:
        faults.append(f"unknown --across {request.across!r}; {choices(request.across, ACROSS)}")
    with suppress(InputError):  # each is refused where it is opened
        names = [str(reference(name)) for name in benchmarks]
        faults += [f"benchmark {name!r}: is given twice" for name in dict.fromkeys(names) if names.count(name) > 1]
    for name, key in _ABOUT_ONE.items():
        if getattr(request, name) is not None:
            option = f"--{name.replace('_', '-')}"
            faults.append(f"{option}: is about one benchmark; with several, write it into its name: NAME?{key}...")
    order = request.class_order
    if order not in (None, "label") and not isinstance(order, int):
        faults.append("--class-order: names of classes are about one benchmark; with several, give a seed")
    if request.across != "mean" and (request.patience is not None or request.target is not None):
        faults.append(ENDS_BY_MEAN)
    if request.objective is not None or request.prefer is not None:
        faults.append("--objective, --prefer: with several benchmarks, trials are judged by their accuracies alone")
    if request.with_bounds:
        faults.append(NO_BOUNDS)
    if faults:
        raise InputError(*faults)


def space_for(request: SearchRequest) -> ResolvedSpace:
    """Return the space that a search would use. Only a benchmark of the user's own is opened; its code is allowed.

    Raises:
        InputError: If method, benchmark, backbone, space or a fixed value is wrong.
    """
    allow_named(request)
    ref, file = reference(_text_of(request)), None if request.space is None else Path(request.space)
    if request.backbone:
        _ = Backbone(request.backbone).input  # refuses an unknown name
    if not ref.is_own:
        return studies.space_of(request.method, ref.name, file, request.set or {})
    entry, opened = get_method(request.method), open_benchmark(str(ref), None)
    return _space(request, entry, opened, entry.scenario(opened.source.spec, _backbone(request, opened)))


def _backbone(request: SearchRequest, opened: OpenBenchmark) -> Backbone:
    file = None if request.backbone_weights is None else Path(request.backbone_weights).absolute()
    head = None if request.initial_head is None else Path(request.initial_head).absolute()
    return replace(Backbone(request.backbone, file) if request.backbone else opened.backbone(file), head=head)


def _space(request: SearchRequest, entry: MethodEntry, opened: OpenBenchmark, scenario: Scenario) -> ResolvedSpace:
    file = None if request.space is None else Path(request.space)
    suited = entry.own_data_defaults(scenario, opened.steps_per_epoch) if opened.ref.is_own else None
    studies.require_hyperparameters(entry, suited or {}, f"method {entry.name!r}: own_data_defaults: ")
    return studies.space_of(entry.name, opened.ref.name, file, request.set or {}, suited)


def plan_training(
    request: TrainRequest, opening: Opening = open_benchmark, *, gpus: GpusAt = gpus_at, write: bool = True
) -> Plan[FinalSpec]:
    """Return the plan of a final run whose request is right; for the arguments see `plan_search`. Nothing is started.

    Raises:
        InputError: If something in the request, or the best file's protocol, is wrong.
    """
    faults = Faults()
    with faults:
        require_pilot(request)
    with faults:
        entry = get_method(request.best.method)
        studies.require_hyperparameters(entry, request.set or {})
        _require_curvature(request, entry)
    faults.raise_all()
    seeds, orders = tuple(request.seeds), None if request.class_orders is None else tuple(request.class_orders)
    best = request.best.on(request.benchmark)
    if not may_use_gpu(request):
        require_cpu_has(best.protocol.precision, f"{best.title}: protocol.precision")
    named = best.benchmark if request.best.benchmarks else request.benchmark or best.benchmark
    opened = opening(named, request.data_root)
    overrides = dict(request.set or {})
    config = entry.parse({**best.hyperparameters, **overrides})
    then = best.protocol
    backbone = Backbone.of(then.backbone, then.backbone_weights, then.initial_head)
    with faults_of(f"{best.title}: protocol.backbone"):
        reads = backbone.input
    entry.validate(config, entry.scenario(opened.source.spec, backbone))
    usable, protocol = images_then_weights(
        lambda: opened.require("final", then.split_seed, reads),
        backbone,
        lambda: protocol_of(opened.source.spec, then.split_seed, backbone, then.precision, orders),
    )
    _require_same_protocol(best, protocol, same_benchmark=request.best.is_on(str(opened.ref)))
    for order in orders or ():
        opened.ref.with_options(class_order=order)  # refuses one that is too large
    storage, shared = _given(request, "final", opened, entry, write=write)
    if request.tracking is None:
        shared["tracking"] = _tracking_of_search(best, storage)
    spec = FinalSpec(
        **shared,
        protocol=protocol,
        data=usable.data,
        trials=len(seeds) * len(orders or (None,)),
        tasks=() if orders else opened.source.spec.named_tasks,  # each order has tasks of its own
        classes=len(opened.source.spec.class_names) if orders else None,
        fixed=asdict(config),
        seeds=seeds,
        source=None if best.selection is None else best.selection.search,
        tuned_on=None if best.selection is None else request.best.benchmark,
        overrides=overrides,
        left_out=usable.left_out,
        measure_removability=_removability_bounded(best) and entry.removability_fault(opened.source.num_tasks) is None,
        save_curvature=request.save_curvature,
    )
    plan = Plan(spec, storage, named=request.name is not None, resume_if_exists=request.resume_if_exists)
    return placed(plan, request, gpus)


def _tracking_of_search(best: studies.BestFile, storage: Storage) -> tuple[TrackerName, ...] | None:
    """Return the trackers of the search that has chosen; None where it is not in the storage, or had the default."""
    search = None if best.selection is None else best.selection.search
    if search is None or not storage.run_exists(search):
        return None
    return checked_tracking(tracking_text(read_spec(storage.run(search)).tracking))


def _require_curvature(request: TrainRequest, entry: MethodEntry) -> None:
    """Refuse `--save-curvature` where no curvature could be saved."""
    if request.save_curvature and request.class_orders is not None:
        raise InputError("--save-curvature: with --class-orders no task vectors are saved, so no curvature either")
    if request.save_curvature and (
        fault := entry.curvature_fault({**request.best.hyperparameters, **(request.set or {})})
    ):
        raise InputError(f"--save-curvature: {fault}")


def _removability_bounded(best: studies.BestFile) -> bool:
    """Whether a search for removability has chosen the configuration; a final run on one task cannot measure it."""
    found = best.selection
    if found is None:
        return False
    return any(
        metric in VALIDATION.removability for metric in (*(c.metric for c in found.constraints), *found.objectives)
    )


def require_continuable(spec: AnySpec) -> None:
    """Check method and hyperparameters of a specification that was read: a user may have edited its file."""
    with faults_of(f"run {spec.name!r}: run.yaml"):
        entry = get_method(spec.method)
        entry.parse({**spec.fixed, **(spec.start if spec.purpose == "search" else {})})


def _given(
    request: SearchRequest | TrainRequest, purpose: Purpose, opened: OpenBenchmark, entry: MethodEntry, *, write: bool
) -> tuple[Storage, dict[str, Any]]:
    """Check the options of every new run; returns the storage root and fields of the specification."""
    wish = request.gpus_per_trial
    share = 0 if wish is None or wish == "auto" else wish  # `placed` chooses
    resources = plan_resources(request.cpus_per_trial, share, request.max_concurrent_trials, request.address)
    uri, trackers = checked_uri(request.tracking_uri), checked_tracking(request.tracking)
    stem = f"{opened.ref.slug}-{file_name(entry.name)}" + ("-final" if purpose == "final" else "")
    storage, name = _new_run(request, stem, write=write)
    given = {
        "name": name,
        "id": uuid4().hex,
        "benchmark": str(opened.ref),
        "data_root": opened.data_root,
        "method": entry.name,
        "resources": resources,
        "steps": _steps(entry, opened),
        "cache_size": request.cache_size,
        "tracking": trackers,
        "tracking_uri": uri,
        "address": request.address,
        "with_bounds": request.with_bounds,
    }
    return storage, given


def _new_run(request: SearchRequest | TrainRequest, stem: str, *, write: bool = True) -> tuple[Storage, str]:
    """Return the storage root and the name of a run."""
    if request.resume_if_exists and request.name is None:
        raise InputError("--resume-if-exists goes with --name: without one every run is a new one")
    return new_run(request.storage, request.name, stem, resume_if_exists=request.resume_if_exists, write=write)


def _steps(entry: MethodEntry, opened: OpenBenchmark) -> int:
    """Return the number of steps of a trial: the number of tasks, or 1 for a method that sees all tasks at once."""
    return 1 if entry.capabilities.joint else opened.source.num_tasks


def _text_of(request: SearchRequest) -> str:
    """Return the reference of the benchmark with the options of the request."""
    ref = reference(request.benchmark).with_options(
        tasks=request.tasks,
        classes_per_task=request.classes_per_task,
        class_order=class_order_of(request.class_order),
        task=tasks_of(request.task),
        epochs=request.epochs,
        variant=request.variant,
        partial=request.partial or None,
        skip_broken=request.skip_broken or None,
        label_column=request.label_column,
    )
    return str(ref)


def _trial_count(trials: int | None, algorithm: str, points: int, anything_to_search: bool) -> int:
    require_enough(trials, algorithm, points, anything_to_search)
    return trials or (points if algorithm == "grid" else DEFAULT_TRIALS if anything_to_search else 1)


def require_enough(trials: int | None, algorithm: str, points: int, anything_to_search: bool) -> None:
    """Check the number of trials, and the number of points of a grid.

    Raises:
        InputError: If the grid is too large, or has fewer points than there are trials, or they are too many for `gp`.
    """
    if trials is not None and algorithm == "gp" and trials > MOST_GP_TRIALS:
        slow = "a proposal takes seconds then, and its time grows faster than the number of trials"
        raise InputError(f"--trials {trials}: gp takes {MOST_GP_TRIALS} at most, as {slow}; tpe takes more")
    if algorithm == "grid" and points > (most := int(TRIALS.high)):
        raise InputError(f"the grid has {points:,} points, of at most {most:,}; tpe and random need no grid")
    if trials is not None and algorithm == "grid" and trials > points:
        raise InputError(f"--trials {trials}: the grid has {counted(points, 'point')}")
    if trials is not None and algorithm != "grid" and not anything_to_search and trials > 1:
        raise InputError(f"--trials {trials}: every hyperparameter is fixed, so there is one configuration to try")


def _require_same_protocol(best: studies.BestFile, now: ExperimentProtocol, *, same_benchmark: bool) -> None:
    """Refuse a best file whose accuracies depend on another protocol than that of the final run."""
    keys = (
        ("tasks", "epochs", "batch_size", "weights_digest", "initial_head_digest")
        if same_benchmark
        else ("weights_digest",)
    )
    for key in keys:
        was, is_ = getattr(best.protocol, key), getattr(now, key)
        if was != is_:
            raise InputError(f"{best.title}: protocol.{key} is {was}, but {now.backbone} on this benchmark has {is_}")
