"""What the plans of searches and final runs share, and what a request says of benchmark, backbone and space."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from search_spaces import ResolvedSpace
from tausearch import studies
from tausearch.api.benchmarks import OpenBenchmark
from tausearch.api.requests import SearchRequest, TrainRequest
from tausearch.api.tasks import class_order_of, tasks_of
from tausearch.cluster import plan_resources
from tausearch.presentation import print_notices
from tausearch.runs import AnySpec, RunDirectory, Storage, new_run, open_storage, read_spec, require_space
from tausearch.tracking import checked_tracking, checked_uri
from trainables.backbones import Backbone
from trainables.config import Purpose
from trainables.data import reference
from trainables.errors import InputError, faults_of
from trainables.methods import MethodEntry, Scenario, get_method
from trainables.user_code import file_name


def earlier_search(request: SearchRequest) -> RunDirectory | None:
    """Return the run directory of the search that a request continues; None if there is none."""
    if not request.resume_if_exists or request.name is None:
        return None
    directory = open_storage(request.storage, write=False).run(request.name)
    return directory if directory.exists() else None


def given_fields(
    request: SearchRequest | TrainRequest, purpose: Purpose, opened: OpenBenchmark, entry: MethodEntry, *, write: bool
) -> tuple[Storage, dict[str, Any]]:
    """Check the options of every new run; returns the storage root and fields of the specification."""
    wish = request.gpus_per_trial
    share = 0 if wish is None or wish == "auto" else wish  # `with_device` chooses
    resources = plan_resources(request.cpus_per_trial, share, request.max_concurrent_trials, request.address)
    uri, trackers = checked_uri(request.tracking_uri), checked_tracking(request.tracking)
    stem = f"{opened.ref.slug}-{file_name(entry.name)}" + ("-final" if purpose == "final" else "")
    storage, name = named_run(request, stem, write=write)
    given = {
        "name": name,
        "id": uuid4().hex,
        "benchmark": str(opened.ref),
        "data_root": opened.data_root,
        "method": entry.name,
        "resources": resources,
        "steps": n_steps(entry, opened),
        "cache_size": request.cache_size,
        "tracking": trackers,
        "tracking_uri": uri,
        "address": request.address,
        "with_bounds": request.with_bounds,
    }
    return storage, given


def named_run(request: SearchRequest | TrainRequest, stem: str, *, write: bool = True) -> tuple[Storage, str]:
    """Return the storage root and the name of a run."""
    if request.resume_if_exists and request.name is None:
        raise InputError("--resume-if-exists goes with --name: without one every run is a new one")
    return new_run(request.storage, request.name, stem, resume_if_exists=request.resume_if_exists, write=write)


def say_if_unwritable(storage: Storage) -> None:
    """Say on stderr why no run can be made in a storage, if so: a dry run writes nothing, and goes on."""
    try:
        require_space(open_storage(storage.root, write=True).root)
    except InputError as error:
        print_notices(f"{error}; a run here would be refused")


def n_steps(entry: MethodEntry, opened: OpenBenchmark) -> int:
    """Return the number of steps of a trial: the number of tasks, or 1 for a method that sees all tasks at once."""
    return 1 if entry.capabilities.joint else opened.source.num_tasks


def benchmark_text(request: SearchRequest) -> str:
    """Return the reference of the benchmark with the options of the request; an option has one value in both."""
    ref, order = reference(request.benchmark), class_order_of(request.class_order)
    given = {
        "tasks": request.tasks,
        "classes_per_task": request.classes_per_task,
        "class_order": order,
        "task": tasks_of(request.task),
        "epochs": request.epochs,
        "variant": request.variant,
        "partial": request.partial or None,
        "skip_broken": request.skip_broken or None,
        "label_column": request.label_column,
    }
    ref.require_said_once(**{**given, "class_order": request.class_order if order is None else order})
    return str(ref.with_options(**given))


def requested_backbone(request: SearchRequest, opened: OpenBenchmark) -> Backbone:
    """Return the backbone that a request names, else that of the benchmark."""
    file = None if request.backbone_weights is None else Path(request.backbone_weights).absolute()
    head = None if request.initial_head is None else Path(request.initial_head).absolute()
    return replace(Backbone(request.backbone, file) if request.backbone else opened.backbone(file), head=head)


def space_on(
    request: SearchRequest,
    entry: MethodEntry,
    opened: OpenBenchmark,
    scenario: Scenario,
    earlier: RunDirectory | None = None,
) -> ResolvedSpace:
    """Return the space of a method on a benchmark; on own images with what suits them."""
    file = None if request.space is None else Path(request.space)
    suited = entry.own_data_defaults(scenario, opened.steps_per_epoch) if opened.ref.is_own else None
    studies.require_hyperparameters(entry, suited or {}, f"method {entry.name!r}: own_data_defaults: ")
    grid = request.algorithm == "grid"
    return studies.space_of(
        entry.name, opened.ref.name, file, request.set or {}, suited, grid=grid, begun_with=_searched(earlier)
    )


def _searched(earlier: RunDirectory | None) -> Collection[str]:
    """Return the hyperparameters that an earlier search searches; none if it cannot be read, which is said later."""
    with suppress(InputError):
        return getattr(read_spec(earlier), "space", ()) if earlier is not None else ()
    return ()


def require_continuable(spec: AnySpec) -> None:
    """Check method and hyperparameters of a specification that was read: a user may have edited its file."""
    with faults_of(f"run {spec.name!r}: run.yaml"):
        entry = get_method(spec.method)
        entry.parse({**spec.fixed, **(spec.start if spec.purpose == "search" else {})})
