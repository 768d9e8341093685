"""Measure the bounds of a run (`--with-bounds`): one run each of `probe` and `joint`, at the start of their spaces.

Their names are the run's with the method behind it. A bound that was measured before is kept, whatever its name, and
one that was stopped is continued.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any, TypeVar

from tausearch.api.plans import plan_search
from tausearch.api.requests import DriveRequest, SearchRequest, TrainRequest
from tausearch.runs import (
    AnySpec,
    BesideBounds,
    FinalSpec,
    RunDirectory,
    RunResult,
    Storage,
    beside_bounds,
    read_status,
)
from tausearch.studies import start_of
from tausearch.tracking import tracking_text
from trainables.errors import InputError

Result = TypeVar("Result", bound=RunResult)
Measure = Callable[[AnySpec, str], RunResult]
"""Runs a bound of a run, by the name of its method."""


def with_bounds_of(spec: AnySpec, result: Result, how: DriveRequest, measure: Measure) -> Result:
    """Run the bounds that a run lacks, if it asks for them and has ended.

    A bound that cannot run is said in a line and costs nothing else.

    Returns:
        The result of the run. A signal or the time budget that ends a bound is noted in it, so that `resume` is
        advised.
    """
    if not spec.with_bounds or result.interrupted or result.out_of_time:
        return result
    beside = bounds_of(result)
    for method in () if beside is None else beside.missing:
        try:
            bound = measure(spec, method)
        except InputError as error:
            out = sys.stdout if how.progress_to == "stdout" else sys.stderr
            print(f"{method} cannot be measured: {error}", file=out, flush=True)
            continue
        if bound.interrupted or bound.out_of_time:
            return replace(result, signal=bound.signal, out_of_time=bound.out_of_time)
    return result


def bounds_of(result: RunResult) -> BesideBounds | None:
    """Return the accuracy of a run beside its bounds, as its record has it now; None before it has one."""
    directory = RunDirectory(result.path)
    return beside_bounds(read_status(directory), Storage(directory.path.parent))


class Remaining:
    """The seconds that are left of a time budget; None without one."""

    def __init__(self, budget: float | None) -> None:
        self._deadline = None if budget is None else monotonic() + budget

    def __call__(self) -> float | None:
        """Return the seconds that are left, at least 1."""
        return None if self._deadline is None else max(1.0, self._deadline - monotonic())


def bound_search(spec: AnySpec, method: str, how: DriveRequest, time_budget: float | None = None) -> SearchRequest:
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
        precision=protocol.precision,
        time_budget=time_budget,
        **_shared(spec, method, how),
    )


def bound_training(spec: FinalSpec, method: str, how: DriveRequest) -> TrainRequest:
    """Return the request for a bound of a final run: the start of its space, with the same seeds."""
    search = bound_search(spec, method, how)
    start = start_of(plan_search(replace(search, name=None, resume_if_exists=False)).spec)
    orders = spec.protocol.class_orders
    return TrainRequest(start, seeds=spec.seeds, class_orders=orders, **_shared(spec, method, how))


def _shared(spec: AnySpec, method: str, how: DriveRequest) -> dict[str, Any]:
    return {
        "name": f"{spec.name}-{method}",
        "resume_if_exists": True,
        "cpus_per_trial": spec.resources.cpus_per_trial,
        "gpus_per_trial": spec.resources.gpus_per_trial,
        "max_concurrent_trials": spec.resources.max_concurrent_trials,
        "cache_size": spec.cache_size,
        "data_root": spec.data_root,
        "callbacks": how.callbacks,
        "tracking": tracking_text(spec.tracking),
        "tracking_uri": spec.tracking_uri,
        "storage": how.storage,
        "address": how.address,
        "progress_to": how.progress_to,
    }
