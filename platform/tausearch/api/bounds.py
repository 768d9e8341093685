"""Measure the bounds of a run (`--with-bounds`): one run each of `probe` and `joint`, at the start of their spaces.

They follow the run in its driver. Their names are the run's with the method behind it (`bound_name`). A bound that was
measured before is kept, whatever its name, and one that was stopped is continued.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, TypeVar

from tausearch.api.finishing import preload_imports
from tausearch.api.plans.searches import plan_search
from tausearch.api.requests import SearchRequest, TrainRequest
from tausearch.execution import Run
from tausearch.runs import (
    AnySpec,
    BesideBounds,
    FinalSpec,
    Plan,
    RunDirectory,
    SearchSpec,
    Storage,
    beside_bounds,
    bound_name,
    read_status,
)
from tausearch.studies import unsearched_best_file
from tausearch.tracking import tracking_text
from trainables.errors import InputError

S = TypeVar("S", SearchSpec, FinalSpec)


class RunWithBounds(Run):
    """A run that its bounds follow in its driver, if it asks for them."""

    _missing: list[str] | None = None  # the methods of the bounds that it lacks; None before it has ended

    def next_run(self, locks: ExitStack, say: Callable[[str], None]) -> Run | None:
        """Open the next bound that the run lacks. One that cannot run is said in a line and costs nothing else."""
        if self._missing is None:
            beside = bounds_of(self.directory) if self.spec.with_bounds else None
            self._missing = [] if beside is None else list(beside.missing)
        while self._missing:
            method = self._missing.pop(0)
            try:
                return self.open_bound(method, locks)
            except InputError as error:
                say(f"{method} cannot be measured: {error}")
        return None

    def preload_imports(self) -> None:
        """Import what `conclude` needs."""
        preload_imports(self.spec.purpose)

    def open_bound(self, method: str, locks: ExitStack) -> Run:
        """Open the bound of a method; its lock goes into the stack."""
        raise NotImplementedError


def bounds_of(directory: RunDirectory) -> BesideBounds | None:
    """Return the accuracy of a run beside its bounds, as its record has it now; None before it has one."""
    return beside_bounds(read_status(directory), Storage(directory.path.parent))


def as_beside(plan: Plan[S], spec: AnySpec) -> Plan[S]:
    """Return the plan of a bound with the device of its run, and why."""
    return replace(plan, spec=plan.spec.model_copy(update={"resources": spec.resources}))


def bound_search(spec: AnySpec, method: str, storage: Storage) -> SearchRequest:
    """Return the request for a bound of a search: one trial at the start of its space, on the same split."""
    protocol = spec.protocol
    return SearchRequest(
        spec.benchmark,
        method,
        trials=1,
        seed=protocol.split_seed,  # of the same split; a search has the same seed
        reevaluate=0,
        backbone=protocol.backbone,
        backbone_weights=protocol.backbone_weights,
        initial_head=protocol.initial_head,
        precision=protocol.precision,
        **_shared(spec, method, storage),
    )


def bound_training(spec: FinalSpec, method: str, storage: Storage) -> TrainRequest:
    """Return the request for a bound of a final run: the start of its space, with the same seeds."""
    search = bound_search(spec, method, storage)
    start = unsearched_best_file(plan_search(replace(search, name=None, resume_if_exists=False)).spec)
    orders = spec.protocol.class_orders
    return TrainRequest(start, seeds=spec.seeds, class_orders=orders, **_shared(spec, method, storage))


def _shared(spec: AnySpec, method: str, storage: Storage) -> dict[str, Any]:
    return {
        "name": bound_name(spec.name, method),
        "resume_if_exists": True,
        "cpus_per_trial": spec.resources.cpus_per_trial,
        "gpus_per_trial": spec.resources.gpus_per_trial,
        "max_concurrent_trials": spec.resources.max_concurrent_trials,
        "cache_size": spec.cache_size,
        "data_root": spec.data_root,
        "tracking": tracking_text(spec.tracking),
        "tracking_uri": spec.tracking_uri,
        "storage": storage.root,
        "address": spec.address,
    }
