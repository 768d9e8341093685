"""Plan a final run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from typing import Any

from tausearch import studies
from tausearch.api.benchmarks import OpenBenchmark, Opening, images_then_weights, open_benchmark, with_images_compared
from tausearch.api.plans.new_runs import given_fields
from tausearch.api.requests import TrainRequest
from tausearch.cluster import GpusAt, gpus_at, may_use_gpu, require_cpu_has, require_pilot, with_device
from tausearch.presentation import print_notices
from tausearch.runs import (
    AnySpec,
    DataFacts,
    ExperimentProtocol,
    FinalSpec,
    Plan,
    Storage,
    names_in,
    protocol_of,
    read_spec,
    search_of,
)
from tausearch.tracking import require_installed
from trainables.backbones import Backbone, InputSpec
from trainables.data import BenchmarkRef, build_benchmark
from trainables.errors import Faults, InputError, faults_of
from trainables.methods import MethodEntry, get_method
from trainables.metrics import VALIDATION
from trainables.user_code import changed, digests_of, require_allowed


def plan_training(
    request: TrainRequest, opening: Opening = open_benchmark, *, gpus: GpusAt = gpus_at, write: bool = True
) -> Plan[FinalSpec]:
    """Return the plan of a final run whose request is right; its arguments are those of `plan_search`."""
    faults = Faults()
    with faults:
        require_pilot(request.gpus_per_trial, request.address)
    with faults:
        entry = get_method(request.best.method)
        studies.require_hyperparameters(entry, request.set or {})
        _require_curvature(request, entry)
    faults.raise_all()
    seeds, orders = tuple(request.seeds), None if request.class_orders is None else tuple(request.class_orders)
    best = request.best.on(request.benchmark)
    if not may_use_gpu(request.gpus_per_trial, request.address):
        require_cpu_has(best.protocol.precision, f"{best.title}: protocol.precision")
    named = best.benchmark if request.best.benchmarks else request.benchmark or best.benchmark
    overrides = dict(request.set or {})
    hyperparameters = {**best.hyperparameters, **overrides}
    require_allowed(names_in([named], best.method, best.protocol, hyperparameters.values()))
    opened = opening(named, request.data_root)
    _require_one_order(opened.ref, orders)
    config = entry.parse(hyperparameters)
    protocol = best.protocol
    backbone = Backbone.of(protocol.backbone, protocol.backbone_weights, protocol.initial_head)
    with faults_of(f"{best.title}: protocol.backbone"):
        reads = backbone.input
    entry.validate(config, entry.scenario(opened.source.spec, backbone))
    usable, protocol = images_then_weights(
        lambda: opened.require("final", protocol.split_seed, reads),
        backbone,
        lambda: protocol_of(opened.source.spec, protocol.split_seed, backbone, protocol.precision, orders),
    )
    _require_same_protocol(best, protocol, opened.ref, same_benchmark=request.best.is_on(str(opened.ref)))
    for order in orders or ():
        opened.ref.with_options(class_order=order)  # refuses one that is too large
    storage, shared = given_fields(request, "final", opened, entry, write=write)
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
        source_id="" if best.selection is None else best.selection.search_id,
        tuned_on=None if best.selection is None else request.best.benchmark,
        overrides=overrides,
        left_out=usable.left_out,
        measure_removability=_removability_bounded(best) and entry.removability_fault(opened.source.num_tasks) is None,
        save_curvature=request.save_curvature,
    )
    search = _search_of(spec, storage, must_be_readable=request.tracking is None)
    if request.tracking is None and search is not None:
        require_installed(search.trackers)
        spec = spec.model_copy(update={"tracking": search.tracking})
    _say_other_code(spec, search)
    _require_images_of_search(best, spec, search, opened, reads)
    plan = Plan(spec, storage, named=request.name is not None, resume_if_exists=request.resume_if_exists)
    return with_device(with_images_compared(plan, lambda _: opened), request.gpus_per_trial, gpus)


def _require_one_order(ref: BenchmarkRef, orders: tuple[int, ...] | None) -> None:
    """Refuse class orders where the name of the benchmark has another one."""
    if orders and ref.class_order is not None and orders != (ref.class_order,):
        bare, asked = replace(ref, class_order=None), ",".join(map(str, orders))
        raise InputError(
            f"--class-orders {asked}: benchmark {str(ref)!r} has a class_order; to judge over these orders, name it"
            f" without: --benchmark {shlex.quote(str(bare))}"
        )


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


def _require_same_protocol(
    best: studies.BestFile, now: ExperimentProtocol, ref: BenchmarkRef, *, same_benchmark: bool
) -> None:
    """Refuse a best file whose accuracies depend on another protocol than that of the final run."""

    def changed(*keys: str) -> dict[str, Any]:
        return {key: getattr(best.protocol, key) for key in keys if getattr(best.protocol, key) != getattr(now, key)}

    options = changed("tasks", "epochs", "batch_size") if same_benchmark else {}
    weights = changed("weights_digest", *(["initial_head_digest"] if same_benchmark else []))
    faults = [f"protocol.{key} is {was}, but {ref} has {getattr(now, key)}" for key, was in options.items()]
    if faults:
        own = {**({"classes_per_task": None} if "tasks" in options else {}), **options}
        named = "tasks" in options and ref.task  # their classes are not in the file
        write = "name its tasks in `benchmark` as they were" if named else f"write `benchmark: {replace(ref, **own)}`"
        faults[-1] += f"; {write}, or leave the file as it was and name another benchmark by --benchmark"
    faults += [
        f"protocol.{key} is {was}, but {now.backbone} on this benchmark has {getattr(now, key)}"
        for key, was in weights.items()
    ]
    if faults:
        raise InputError(*(f"{best.title}: {fault}" for fault in faults))


def _search_of(spec: FinalSpec, storage: Storage, *, must_be_readable: bool) -> AnySpec | None:
    """Return the specification of the search that has chosen; None if it is not here, or if a fault may be ignored."""
    if (directory := search_of(storage, spec)) is None:
        return None
    with nullcontext() if must_be_readable else suppress(InputError):
        return read_spec(directory)
    return None


def _require_images_of_search(
    best: studies.BestFile, spec: FinalSpec, search: AnySpec | None, opened: OpenBenchmark, reads: InputSpec
) -> None:
    """Refuse images that have changed since the search: the final run could test images that the search learned.

    With other options than those of the search, only the numbers of images of each class compare. A best file of an
    earlier version does not name the images of the search. Then the search itself is asked.
    """
    if best.selection is None or opened.embedded:
        return
    images: Mapping[str, DataFacts] = best.selection.images or ({} if search is None else search.images)
    for name, began_with in images.items():
        if name == spec.benchmark:
            now = opened.facts_of(build_benchmark(opened.source, "search", best.protocol.split_seed, reads))
        elif opened.has_files_of(name):
            now = began_with.model_copy(update={"classes_digest": opened.classes_digest})
        else:
            continue
        otherwise = "search again, or name a copy of the images with --benchmark"
        opened.require_images(best.selection.search, began_with, now, f"{best.title}: ", otherwise=otherwise)


def _say_other_code(spec: FinalSpec, search: AnySpec | None) -> None:
    """Say which code of the user has changed since the search that has chosen."""
    before = {} if search is None else search.code_digests
    names = changed(before, digests_of(before, in_workers=True))
    print_notices(*(f"the code of {name} has changed since search {spec.source} last started" for name in names))
