"""Continue a run that was stopped or killed, or extend a search that has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from checked_input.names import counted
from tausearch import runs
from tausearch.api.benchmarks import open_benchmark
from tausearch.api.final_runs import FinalResult, FinalRun, run_training
from tausearch.api.plans.new_runs import require_continuable
from tausearch.api.plans.several_benchmarks import ENDS_BY_MEAN, NO_BOUNDS
from tausearch.api.plans.trial_counts import require_enough
from tausearch.api.requests import ResumeRequest, with_fields_of
from tausearch.api.searches import SearchResult, SearchRun, run_search
from tausearch.cluster import continued_resources
from tausearch.presentation import print_notices
from tausearch.runs import AnySpec, DataFacts, ExperimentProtocol, MultiSearchSpec, Record, RunDirectory, SearchSpec
from tausearch.studies import point_count, requested_reevaluation, require_alone, require_patience
from tausearch.tracking import checked_tracking, checked_uri, require_installed
from trainables.backbones import Backbone
from trainables.data import build_benchmark
from trainables.errors import InputError
from trainables.user_code import require_allowed, require_current


def resume_with(request: ResumeRequest) -> SearchResult | FinalResult:
    """Continue a run that was stopped or killed. Finished trials are kept; the others continue after their last task.

    Returns:
        The result of a search or of a final run.

    Raises:
        InputError: If there is no such run, another process drives it, or its protocol has changed.
    """
    options = request.drive_options()
    root = runs.open_storage(request.storage, write=True)
    runs.require_space(root.root)
    directory = root.run(request.name)
    with runs.driver_lock(directory):
        spec = runs.read_spec(directory)
        require_continuable(spec)
        with _damaged_set_aside(spec, directory) if request.without_damaged else nullcontext():
            trials = runs.read_trials(spec, directory)  # refuses a record of another run
            if spec.purpose == "search":
                runs.read_reevaluation(spec, directory.reevaluation, trials)
            spec = _continued(spec, directory, request)
        with runs.spec_update_or_rollback(directory, spec):
            if spec.purpose == "search":
                return run_search(SearchRun(spec, root, directory), options)
            return run_training(FinalRun(spec, root, directory), options)


resume = with_fields_of(ResumeRequest, resume_with)


@contextmanager
def _damaged_set_aside(spec: AnySpec, directory: RunDirectory) -> Iterator[None]:
    """Put damaged files of the record aside, and say so; put them back if the block refuses the request."""
    lines: dict[Path, str] = {}
    try:
        for record in (directory.record, directory.reevaluation.record):
            lines |= Record(record).set_aside_damaged()
        parts = runs.parts_of(spec)
        lines |= runs.set_aside_orphans(directory, 1 if parts is None else parts.count)
        yield
    except BaseException:
        for path in lines:
            runs.place_aside(path).rename(path)
        raise
    print_notices(*lines.values())


def _continued(spec: AnySpec, directory: RunDirectory, request: ResumeRequest) -> AnySpec:
    """Check that a run can be continued; returns its specification with the changes of the request."""
    if request.data_root is not None:
        spec = _moved(spec, request.data_root)
    if request.with_bounds and isinstance(spec, MultiSearchSpec):
        raise InputError(NO_BOUNDS)
    _require_unchanged(spec)
    if request.trials is not None:
        spec = _extended(spec, directory, request.trials)
    if request.patience is not None or request.target is not None:
        spec = _ending(spec, request)
    if request.reevaluate is not None or request.reevaluate_runs is not None:
        spec = _reevaluating(spec, request)
    wanted = request.max_concurrent_trials or spec.resources.max_concurrent_trials
    resources = continued_resources(spec, request.gpus_per_trial, wanted, request.address)
    uri = checked_uri(request.tracking_uri) or spec.tracking_uri
    trackers = spec.tracking if request.tracking is None else checked_tracking(request.tracking)
    require_installed(trackers or ())
    asked = spec.with_bounds or request.with_bounds
    how = {"resources": resources, "address": request.address, "with_bounds": asked}
    return spec.model_copy(update={**how, "tracking": trackers, "tracking_uri": uri})


def _extended(spec: AnySpec, directory: RunDirectory, trials: int) -> SearchSpec:
    if spec.purpose == "final":
        raise InputError(
            f"run {spec.name!r} is a final run, whose seeds are fixed; only searches can be extended. Train all seeds"
            " under another name, or add some to the file of its campaign"
        )
    known = runs.recorded_trials(spec, Record(directory.record))
    again = runs.read_reevaluation(spec, directory.reevaluation, known) if spec.stop.since else None
    re_evaluates = again is not None and not again.race.over  # an extension that has ended early
    if trials == spec.trials and (runs.cut_short(spec, known) is None or re_evaluates):
        return spec  # the same command again, after a kill
    if trials < (fewest := runs.planned_trials(spec, known)):  # one that ended early has fewer than it asked for
        has = "is planned with" if fewest == spec.trials else "ended after"
        raise InputError(f"--trials {trials}: the search {has} {counted(fewest, 'trial')}; it cannot have fewer")
    if trials <= (last := max((trial.number for trial in known), default=0)):  # the record has lost one before it
        raise InputError(f"--trials {trials}: the search has a trial {last}; ask for at least {last + 1}")
    if trials > spec.trials:
        points = point_count(spec.algorithm, spec.space, spec.warm_start)
        require_enough(trials, spec.algorithm, points, spec)
    if trials < spec.trials:
        print_notices(
            f"{spec.name}: ended after {fewest} of {counted(spec.trials, 'trial')}; goes on to {trials} in all"
        )
    return spec.model_copy(update={"trials": trials, "stop": runs.extended_rule(spec, directory, known)})


def _ending(spec: AnySpec, request: ResumeRequest) -> SearchSpec:
    if spec.purpose == "final":
        raise InputError(f"run {spec.name!r} is a final run, which runs all seeds; only searches end early")
    given = {"patience": request.patience, "target": request.target}
    changed = {name: value for name, value in given.items() if value is not None}
    if isinstance(spec, MultiSearchSpec) and spec.across != "mean":
        raise InputError(ENDS_BY_MEAN)
    require_alone(spec.objectives, spec.scheduler, request.patience, request.target)
    require_patience(request.patience, spec)
    return spec.model_copy(update={"stop": spec.stop.model_copy(update=changed)})


def _reevaluating(spec: AnySpec, request: ResumeRequest) -> SearchSpec:
    if spec.purpose == "final":
        raise InputError(f"run {spec.name!r} is a final run, which chooses nothing; only searches re-evaluate")
    wanted = requested_reevaluation(request.reevaluate, request.reevaluate_runs, spec.trials, spec.reevaluate)
    return spec.model_copy(update={"reevaluate": wanted})


def _require_unchanged(spec: AnySpec) -> None:
    """Refuse to continue a run with another protocol or number of images: its accuracies could not be compared."""
    require_allowed(spec.code)
    require_current(spec.user_code_names)
    whole = spec.protocol
    backbone = Backbone.of(whole.backbone, whole.backbone_weights, whole.initial_head)
    for where, benchmark, data_root, protocol, data in _protocols(spec):
        opened = open_benchmark(benchmark, data_root)
        source = opened.source
        now = runs.protocol_of(source.spec, protocol.split_seed, backbone, protocol.precision, protocol.class_orders)
        for key, value in protocol:
            if getattr(now, key) != value:
                raise InputError(f"run {spec.name!r}: {where}protocol.{key} was {value}, is now {getattr(now, key)}")
        if data is not None:
            facts = opened.facts_of(build_benchmark(source, spec.purpose, protocol.split_seed, backbone.input))
            opened.require_images(spec.name, data, facts, where)


def _protocols(spec: AnySpec) -> list[tuple[str, str, str | None, ExperimentProtocol, DataFacts | None]]:
    """Return what a run does on each benchmark: a name for errors, the benchmark, its folder, protocol and images."""
    if not isinstance(spec, MultiSearchSpec):
        return [("", spec.benchmark, spec.data_root, spec.protocol, spec.data)]
    return [(f"parts.{name}.", name, each.data_root, each.protocol, each.data) for name, each in spec.parts.items()]


def _moved(spec: AnySpec, data_root: str | Path) -> AnySpec:
    """Return the specification of a run whose data lies in another folder now."""
    if not isinstance(spec, MultiSearchSpec):
        return spec.model_copy(update={"data_root": open_benchmark(spec.benchmark, data_root).data_root})
    roots = {name: open_benchmark(name, data_root).data_root for name in spec.parts}
    return spec.model_copy(update={"parts": spec.parts_at(roots), "data_root": next(iter(roots.values()))})
