"""Plan a search: on one benchmark, or on several."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from pathlib import Path

from search_spaces import ResolvedSpace
from tausearch import studies
from tausearch.api.benchmarks import Opening, open_benchmark
from tausearch.api.plans.new_runs import benchmark_text, earlier_search, requested_backbone, space_on
from tausearch.api.plans.one_benchmark import plan_one
from tausearch.api.plans.several_benchmarks import plan_several
from tausearch.api.requests import SearchRequest, allow_named
from tausearch.cluster import Bf16At, GpusAt, bf16_at, gpus_at, with_device
from tausearch.presentation import print_notices
from tausearch.runs import Plan, SearchSpec
from trainables.backbones import Backbone
from trainables.data import reference, split_references
from trainables.errors import InputError
from trainables.methods import get_method


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
    `write` says whether the storage must have a place for the run.

    Raises:
        InputError: If something in the request or the space is wrong.
    """
    benchmarks = split_references(request.benchmark)
    if len(benchmarks) > 1:
        plan: Plan[SearchSpec] = plan_several(request, benchmarks, opening, write=write)
    elif request.across is not None:
        raise InputError(f"--across {request.across}: goes with several benchmarks, such as digits,glyphs")
    else:
        plan = plan_one(request, opening, earlier_search(request), write=write)
    studies.require_patience(request.patience, plan.spec)
    _say_absent(request.space, [reference(name).name for name in benchmarks])
    return with_device(plan, request.gpus_per_trial, gpus, auto=bf16 if request.precision == "auto" else None)


def space_for(request: SearchRequest, opening: Opening = open_benchmark) -> ResolvedSpace:
    """Return the space that a search would use. Only a benchmark of the user's own is opened; its code is allowed."""
    allow_named(request)
    ref, file = reference(benchmark_text(request)), None if request.space is None else Path(request.space)
    if request.backbone:
        _ = Backbone(request.backbone).input  # refuses an unknown name
    if ref.is_own:
        entry, opened = get_method(request.method), opening(str(ref), None)
        scenario = entry.scenario(opened.source.spec, requested_backbone(request, opened))
        space = space_on(request, entry, opened, scenario)
    else:
        space = studies.space_of(request.method, ref.name, file, request.set or {})
    _say_absent(file, [ref.name])
    return space


def _say_absent(space: str | Path | None, searched: Collection[str]) -> None:
    if space is not None and (line := studies.absent_images(Path(space), searched)):
        _say_once(line)


@cache
def _say_once(line: str) -> None:
    """Say a line on stderr once, however many benchmarks and cells of a campaign use the file."""
    print_notices(line)
