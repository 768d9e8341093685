"""Plan and run a search."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ray.tune import Trainable

from search_spaces import Scalar
from tausearch.algorithms import OptunaSource
from tausearch.benchmarks import open_benchmark
from tausearch.best import BestFile, choose, load_best
from tausearch.checkpoints import newest_checkpoint
from tausearch.drive import Conclusion, RunResult, drive
from tausearch.files import DEFAULT_STORAGE, DEFAULT_STORE_GIGABYTES, RunDirectory, Storage, open_storage
from tausearch.insight import importances, rank_correlations
from tausearch.lock import driver_lock
from tausearch.mlflow_store import checked_uri
from tausearch.observer import Listener
from tausearch.pilot import with_measured_share
from tausearch.planning import created, plan, plan_resources, require_gpu
from tausearch.quiet import Stream
from tausearch.record import Record, TrialSummary, best_trial
from tausearch.spaces import running_method
from tausearch.spec import RunSpec, protocol_of, read_spec
from tausearch.study import SearchStudy
from tausearch.study_mirror import StudyMirror
from tausearch.watch import require_space
from trainables.backbones import Backbone
from trainables.config import TrialConfig
from trainables.errors import InputError
from trainables.trial import Trial

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SearchResult(RunResult):
    """What a search found.

    Attributes:
        best: The chosen configuration; None if no trial finished.
        best_file: Where it was written.
    """

    best: BestFile | None
    best_file: Path | None


def search(
    benchmark: str,
    method: str,
    *,
    trials: int | None = None,
    algorithm: str = "tpe",
    scheduler: str = "none",
    concurrent: int | None = None,
    cpus_per_trial: int = 1,
    gpus_per_trial: float | Literal["auto"] = 0,
    seed: int = 0,
    name: str | None = None,
    space: str | Path | None = None,
    overrides: Mapping[str, Scalar] | None = None,
    backbone: str | None = None,
    weights: str | Path | None = None,
    precision: str = "fp32",
    store_gigabytes: float = DEFAULT_STORE_GIGABYTES,
    data_root: str | Path | None = None,
    storage: str | Path = DEFAULT_STORAGE,
    tracking_uri: str | None = None,
    address: str | None = None,
    time_budget: float | None = None,
    progress_to: Stream = "stdout",
) -> SearchResult:
    """Search the hyperparameters of a method on a benchmark, judged on the validation split.

    Args:
        benchmark: Name, `folder:PATH`, `parquet:PATH` or `MODULE:NAME`; options follow a `?`, as in
            `folder:birds?tasks=5`; see `trainables.data.BenchmarkRef`.
        method: Name.
        trials: How many configurations; by default 12, or the whole grid.
        algorithm: "tpe", "gp", "random" or "grid".
        scheduler: Rule for stopping trials early, after the third task at the earliest: "none", "asha" or "median".
        concurrent: Trials at a time; by default as many as fit this machine or the cluster, a quarter of the trials
            at most where the algorithm learns from them.
        cpus_per_trial: CPU threads of a trial.
        gpus_per_trial: Share of a GPU; 0 trains on the CPU; "auto" measures a pilot trial and chooses 1/k.
        seed: Of the algorithm, of every trial, and of the validation split.
        name: Of the search; by default the next free `<benchmark>-<method>-<number>`.
        space: A search-space file whose entries go over the method's own.
        overrides: Hyperparameters fixed to a value.
        backbone: Name of the backbone; by default the benchmark's.
        weights: Local weights file of the backbone.
        precision: "fp32", or "bf16" for autocast in fine-tuning and evaluation.
        store_gigabytes: Bound on the size of the pre-consolidation store; 0 does without it.
        data_root: Folder of the published datasets; by default that of TAUSEARCH_DATA, or `./tausearch-data`.
        storage: Folder of run directories.
        tracking_uri: MLflow tracking URI; by default a SQLite file in `storage`.
        address: Of a running Ray cluster; by default a Ray of our own is started on this machine.
        time_budget: Seconds after which the search is stopped; `resume` continues it.
        progress_to: Where progress is shown: "stdout" or "stderr".

    Returns:
        All trials and the best configuration.

    Raises:
        InputError: Before any work, if an argument is wrong.
        SpaceError: Before any work, if the search space is wrong.
    """
    running_method(method)  # first: whoever names a method that does not run need not fetch a dataset to learn it
    if gpus_per_trial == "auto" and address is None:
        require_gpu("--gpus-per-trial auto")
    opened = open_benchmark(benchmark, data_root)
    spec, root = plan(
        benchmark=opened,
        method=method,
        trials=trials,
        algorithm=algorithm,
        scheduler=scheduler,
        concurrent=concurrent,
        cpus_per_trial=cpus_per_trial,
        gpus_per_trial=1 if gpus_per_trial == "auto" else gpus_per_trial,
        seed=seed,
        name=name,
        space=space,
        overrides=overrides,
        backbone=Backbone(backbone or opened.source.backbone, None if weights is None else Path(weights).absolute()),
        precision=precision,
        store_gigabytes=store_gigabytes,
        storage=storage,
        address=address,
    )
    if gpus_per_trial == "auto":
        pilot = spec.trial(0, spec.start, spec.seed, store=root.store, artifacts=None)
        spec, line = with_measured_share(spec, pilot, address)
        print(line, file=sys.stdout if progress_to == "stdout" else sys.stderr, flush=True)
    spec = spec.model_copy(update={"tracking_uri": checked_uri(tracking_uri)})
    with created(spec, root, rename=name is None) as (spec, directory):
        return run_search(spec, root, directory, address=address, time_budget=time_budget, progress_to=progress_to)


def resume(
    name: str,
    *,
    storage: str | Path = DEFAULT_STORAGE,
    trials: int | None = None,
    concurrent: int | None = None,
    data_root: str | Path | None = None,
    tracking_uri: str | None = None,
    address: str | None = None,
    time_budget: float | None = None,
    progress_to: Stream = "stdout",
) -> SearchResult:
    """Continue a search that was stopped or killed: finished trials are kept, others go on after their last task.

    Args:
        name: Of the search.
        storage: Folder of run directories.
        trials: A new total, to extend the search; the algorithm is told everything that is known.
        concurrent: Trials at a time; by default as before.
        data_root: Folder of the published datasets; by default as before.
        tracking_uri: MLflow tracking URI; by default as before.
        address: Of a running Ray cluster.
        time_budget: Seconds after which the search is stopped; `resume` continues it.
        progress_to: Where progress is shown: "stdout" or "stderr".

    Returns:
        All trials and the best configuration.

    Raises:
        InputError: If there is no such search, another process drives it, or its protocol is no longer what it was.
    """
    root = open_storage(storage, write=True)
    require_space(root.root)
    directory = root.run(name)
    if read_spec(directory).purpose != "search":
        raise InputError(f"run {name!r} is a final run; only searches can be continued")
    with driver_lock(directory):
        spec = _continued(read_spec(directory), trials, concurrent, data_root, tracking_uri, address)
        spec.save(directory)
        return run_search(spec, root, directory, address=address, time_budget=time_budget, progress_to=progress_to)


def _continued(
    spec: RunSpec,
    trials: int | None,
    concurrent: int | None,
    data_root: str | Path | None,
    tracking_uri: str | None,
    address: str | None,
) -> RunSpec:
    """Check that a search can go on, and as what.

    Returns:
        What it is to be from now on.

    Raises:
        InputError: If not.
    """
    if data_root is not None:
        spec = spec.model_copy(update={"data_root": open_benchmark(spec.benchmark, data_root).data_root})
    _require_unchanged(spec)
    if trials is not None:
        if trials < spec.trials:
            raise InputError(f"--trials {trials}: the search has {spec.trials} trials already")
        grid_size = math.prod(len(dimension.grid) for dimension in spec.space.values())
        if spec.algorithm == "grid" and trials > grid_size:
            raise InputError(f"--trials {trials}: the grid has {grid_size} points")
        if not spec.space and trials > spec.trials:
            raise InputError(f"--trials {trials}: every hyperparameter is fixed, so there is one configuration to try")
        spec = spec.model_copy(update={"trials": trials})
    wanted = concurrent or spec.resources.concurrent
    resources = plan_resources(spec.resources.cpus_per_trial, spec.resources.gpus_per_trial, wanted, address)
    uri = checked_uri(tracking_uri) or spec.tracking_uri
    return spec.model_copy(update={"resources": resources, "tracking_uri": uri})


def _require_unchanged(spec: RunSpec) -> None:
    """Refuse to continue a search whose numbers would no longer be comparable."""
    then = spec.protocol
    backbone = Backbone(then.backbone, None if then.weights is None else Path(then.weights))
    now = protocol_of(
        open_benchmark(spec.benchmark, spec.data_root).source.spec, then.split_seed, backbone, then.precision
    )
    for key, value in then:
        if getattr(now, key) != value:
            raise InputError(f"run {spec.name!r}: protocol.{key} was {value}, is now {getattr(now, key)}")


def run_search(
    spec: RunSpec,
    storage: Storage,
    directory: RunDirectory,
    *,
    address: str | None = None,
    time_budget: float | None = None,
    progress_to: Stream = "stdout",
    listeners: Sequence[Listener] = (),
    trainable: type[Trainable] = Trial,
) -> SearchResult:
    """Run a search that has been planned and created, from wherever its record says that it is.

    Args:
        spec: What was asked for; saved already.
        storage: Its root.
        directory: Its run directory, which exists.
        address: Of a running Ray cluster, or None.
        time_budget: Seconds after which the search is stopped.
        progress_to: Where progress is shown: "stdout" or "stderr".
        listeners: Told of every change after the record, the best file and the study file.
        trainable: What a trial runs; another one measures the platform alone.

    Returns:
        All trials and the best configuration.
    """
    history = Record(directory.record).trials()
    unfinished = {trial.number for trial in history if trial.status == "running"}

    def make_config(number: int, hyperparameters: dict[str, Scalar]) -> TrialConfig:
        kept = directory.kept(number)
        config = spec.trial(number, hyperparameters, spec.seed, store=storage.store, artifacts=None, kept=kept)
        checkpoint = newest_checkpoint(directory, number) if number in unfinished else None
        return config if checkpoint is None else replace(config, resume_from=str(checkpoint))

    source = OptunaSource(spec, history)
    mirror = StudyMirror(directory.study_file, spec.name, source.study.as_optuna, history)

    def conclude(trials: list[TrialSummary]) -> Conclusion:
        mirror.conclude()
        return conclude_search(spec, directory, trials)

    run = drive(
        spec,
        storage,
        directory,
        source,
        make_config,
        conclude,
        address=address,
        history=history,
        listeners=[BestListener(spec, directory, history), mirror, *listeners],
        time_budget=time_budget,
        progress_to=progress_to,
        trainable=trainable,
    )
    best = load_best(directory.best_file) if directory.best_file.exists() else None
    return SearchResult(**vars(run), best=best, best_file=directory.best_file if best else None)


class BestListener:
    """Keeps the best file up to date while a search runs, so that a kill at any moment leaves it behind.

    Args:
        spec: The search.
        directory: Its run directory.
        history: Trials that are known already.
    """

    def __init__(self, spec: RunSpec, directory: RunDirectory, history: Sequence[TrialSummary]) -> None:
        self.spec = spec
        self.directory = directory
        self.trials = {trial.number: trial for trial in history}

    def trial_changed(self, trial: TrialSummary) -> None:
        """See `Listener`."""
        self.trials[trial.number] = trial
        if trial.status == "complete":
            write_best(self.spec, self.directory, list(self.trials.values()))


def write_best(spec: RunSpec, directory: RunDirectory, trials: Sequence[TrialSummary]) -> BestFile | None:
    """Choose the best trial, if any finished, and write the best file."""
    chosen = best_trial(trials)
    if chosen is None:
        return None
    best = choose(spec, chosen, competitors=sum(trial.status == "complete" for trial in trials))
    best.save(directory.best_file)
    return best


def conclude_search(spec: RunSpec, directory: RunDirectory, trials: list[TrialSummary]) -> Conclusion:
    """Choose the best trial, write the best file, and say what MLflow is to be told."""
    best = write_best(spec, directory, trials)
    if best is None:
        return Conclusion(files=(directory.spec_file,))
    metrics, figures = _insight(spec, directory, trials)

    def set_run_id(run_id: str) -> None:
        selection = best.selection.model_copy(update={"mlflow_run_id": run_id})
        best.model_copy(update={"selection": selection}).save(directory.best_file)

    files = (directory.spec_file, directory.best_file, *figures)
    return Conclusion(best_trial(trials), metrics=metrics, files=files, set_run_id=set_run_id)


def _insight(spec: RunSpec, directory: RunDirectory, trials: list[TrialSummary]) -> tuple[dict[str, float], list[Path]]:
    """Work out and draw what the search teaches; returns metrics for MLflow, and the figures."""
    from tausearch.figures import draw_search  # noqa: PLC0415  # matplotlib, which no search needs before its end

    mattered = importances(SearchStudy(spec, trials).optuna)
    correlations = rank_correlations(trials, spec.steps, spec.prefix)
    metrics = {f"importance/{name}": share for name, share in mattered.items()}
    metrics |= {f"rank_correlation/task_{k}": value for k, value in correlations.items()}
    try:
        return metrics, draw_search(trials, spec.space, mattered, correlations, directory.figures)
    except OSError as error:  # a full disk must not cost the best file
        _log.warning("figures of %s cannot be written (%s)", spec.name, error)
        return metrics, []
