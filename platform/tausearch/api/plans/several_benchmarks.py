"""Plan a search on several benchmarks, from the plans that it would have on each alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from checked_input.names import choices
from tausearch import studies
from tausearch.api.benchmarks import FaultsOfEach, Opening, with_images_compared
from tausearch.api.plans.new_runs import earlier_search, named_run
from tausearch.api.plans.one_benchmark import plan_one
from tausearch.api.plans.trial_counts import trial_count
from tausearch.api.requests import SearchRequest
from tausearch.runs import ACROSS, Plan, SearchSpec
from trainables.data import reference, slug_of
from trainables.errors import InputError
from trainables.user_code import file_name

NO_BOUNDS = "--with-bounds: with several benchmarks, give it to the final run on each"
ENDS_BY_MEAN = "--patience, --target: with several benchmarks, go with --across mean; other values move"
_ABOUT_ONE = {"task": "task=", "variant": "variant=", "label_column": "label_column="}


def plan_several(
    request: SearchRequest, benchmarks: Sequence[str], opening: Opening, *, write: bool
) -> Plan[SearchSpec]:
    """Return the plan of a search on several benchmarks, from the plans that it would have on each alone."""
    faults, plans = FaultsOfEach(len(benchmarks)), []
    with faults:
        _require_several(request, benchmarks)
    alone, earlier = _alone(request), earlier_search(request)
    for benchmark in benchmarks:
        with faults.of(benchmark):
            plans.append(plan_one(replace(alone, benchmark=benchmark), opening, earlier, write=write))
    faults.raise_all()
    with faults:
        spec = studies.merged([plan.spec for plan in plans], request.across)
    with faults:
        options, begun = request.pruner_options or {}, earlier is not None
        studies.require_scheduler(
            request.scheduler, request.algorithm, len(benchmarks), options, first_stop=1, begun=begun
        )
    with faults:
        stem = slug_of(reference(plan.spec.benchmark) for plan in plans)
        storage, name = named_run(request, f"{stem}-{file_name(plans[0].spec.method)}", write=write)
    faults.raise_all()
    points = studies.point_count(request.algorithm, spec.space, spec.warm_start)
    kept = studies.kept_points(request.warm_start or (), earlier, spec.space)
    own = {
        "warm_start": spec.warm_start if kept is None else kept,
        "name": name,
        "trials": trial_count(request.trials, request.algorithm, points, spec),
        "scheduler": request.scheduler,
        "pruner_options": dict(request.pruner_options or {}),
    }
    spec = spec.model_copy(update=own)
    studies.require_sampler(spec)
    named = request.name is not None
    plan: Plan[SearchSpec] = Plan(spec, storage, named=named, resume_if_exists=request.resume_if_exists)
    return with_images_compared(plan, lambda name: opening(name, request.data_root))


def _alone(request: SearchRequest) -> SearchRequest:
    """Return a request without the options that are about several benchmarks, or cannot be about several."""
    seed = request.class_order if isinstance(request.class_order, int) or request.class_order == "label" else None
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
