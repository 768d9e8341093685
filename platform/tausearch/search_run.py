"""Plan and run a search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from search_spaces import Scalar
from tausearch.algorithms import OptunaSource, best_trial
from tausearch.benchmarks import open_benchmark
from tausearch.best import BestFile, choose, load_best
from tausearch.drive import Conclusion, RunResult, drive
from tausearch.files import DEFAULT_STORAGE, RunDirectory, Storage, open_storage
from tausearch.planning import create, plan, plan_resources
from tausearch.quiet import Stream
from tausearch.record import Record, TrialSummary
from tausearch.runner import is_driven, newest_checkpoint
from tausearch.spec import RunSpec, protocol_of, read_spec
from trainables.backbones import Backbone
from trainables.errors import InputError
from trainables.trial import TrialConfig


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
    concurrent: int | None = None,
    cpus_per_trial: int = 1,
    gpus_per_trial: float = 0,
    seed: int = 0,
    name: str | None = None,
    space: str | Path | None = None,
    overrides: Mapping[str, Scalar] | None = None,
    backbone: str | None = None,
    weights: str | Path | None = None,
    precision: str = "fp32",
    data_root: str | Path | None = None,
    storage: str | Path = DEFAULT_STORAGE,
    tracking_uri: str | None = None,
    address: str | None = None,
    progress_to: Stream = "stdout",
) -> SearchResult:
    """Search the hyperparameters of a method on a benchmark, judged on the validation split.

    Args:
        benchmark: Name, `folder:PATH`, `parquet:PATH` or `MODULE:NAME`; options follow a `?`, as in
            `folder:birds?tasks=5`; see `trainables.data.BenchmarkRef`.
        method: Name.
        trials: How many configurations; by default 12, or the whole grid.
        algorithm: "tpe", "random" or "grid".
        concurrent: Trials at a time; by default as many as fit this machine's CPUs.
        cpus_per_trial: CPU threads of a trial.
        gpus_per_trial: Share of a GPU; 0 trains on the CPU.
        seed: Of the algorithm, of every trial, and of the validation split.
        name: Of the search; by default the next free `<benchmark>-<method>-<number>`.
        space: A search-space file whose entries go over the method's own.
        overrides: Hyperparameters fixed to a value.
        backbone: Name of the backbone; by default the benchmark's.
        weights: Local weights file of the backbone.
        precision: "fp32", or "bf16" for autocast in fine-tuning and evaluation.
        data_root: Folder of the published datasets; by default that of TAUSEARCH_DATA, or `./tausearch-data`.
        storage: Folder of run directories.
        tracking_uri: MLflow tracking URI; by default a SQLite file in `storage`.
        address: Of a running Ray cluster; by default a Ray of our own is started on this machine.
        progress_to: Where progress is shown: "stdout" or "stderr".

    Returns:
        All trials and the best configuration.

    Raises:
        InputError: Before any work, if an argument is wrong.
        SpaceError: Before any work, if the search space is wrong.
    """
    opened = open_benchmark(benchmark, data_root)
    spec, storage_, directory = plan(
        benchmark=opened,
        method=method,
        trials=trials,
        algorithm=algorithm,
        concurrent=concurrent,
        cpus_per_trial=cpus_per_trial,
        gpus_per_trial=gpus_per_trial,
        seed=seed,
        name=name,
        space=space,
        overrides=overrides,
        backbone=Backbone(backbone or opened.source.backbone, None if weights is None else Path(weights)),
        precision=precision,
        storage=storage,
        address=address,
    )
    create(spec, directory)
    return _run(spec, storage_, directory, tracking_uri, address, progress_to)


def resume(
    name: str,
    *,
    storage: str | Path = DEFAULT_STORAGE,
    trials: int | None = None,
    concurrent: int | None = None,
    data_root: str | Path | None = None,
    tracking_uri: str | None = None,
    address: str | None = None,
    progress_to: Stream = "stdout",
) -> SearchResult:
    """Continue a search that was stopped or killed: finished trials are kept, others go on after their last task.

    Args:
        name: Of the search.
        storage: Folder of run directories.
        trials: A new total, to extend the search; the algorithm is told everything that is known.
        concurrent: Trials at a time; by default as before.
        data_root: Folder of the published datasets; by default as before.
        tracking_uri: MLflow tracking URI; by default a SQLite file in `storage`.
        address: Of a running Ray cluster.
        progress_to: Where progress is shown: "stdout" or "stderr".

    Returns:
        All trials and the best configuration.

    Raises:
        InputError: If there is no such search, another process drives it, or its protocol is no longer what it was.
    """
    root = open_storage(storage, write=True)
    directory = root.run(name)
    spec = read_spec(directory)
    if data_root is not None:
        spec = spec.model_copy(update={"data_root": open_benchmark(spec.benchmark, data_root).data_root})
    if spec.purpose != "search":
        raise InputError(f"run {name!r} is a final run; only searches can be continued")
    if is_driven(directory):
        raise InputError(f"run {name!r} is being driven by another process")
    _require_unchanged(spec)
    if trials is not None:
        if trials < spec.trials:
            raise InputError(f"--trials {trials}: the search has {spec.trials} trials already")
        grid_size = math.prod(len(dimension.grid) for dimension in spec.space.values())
        if spec.algorithm == "grid" and trials > grid_size:
            raise InputError(f"--trials {trials}: the grid has {grid_size} points")
        spec = spec.model_copy(update={"trials": trials})
    if concurrent is not None:
        resources = plan_resources(spec.resources.cpus_per_trial, spec.resources.gpus_per_trial, concurrent, address)
        spec = spec.model_copy(update={"resources": resources})
    spec.save(directory)
    return _run(spec, root, directory, tracking_uri, address, progress_to)


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


def _run(
    spec: RunSpec,
    storage: Storage,
    directory: RunDirectory,
    tracking_uri: str | None,
    address: str | None,
    progress_to: Stream,
) -> SearchResult:
    history = Record(directory.record).trials()
    unfinished = {trial.number for trial in history if trial.status == "running"}

    def make_config(number: int, hyperparameters: dict[str, Scalar]) -> TrialConfig:
        config = spec.trial(number, hyperparameters, spec.seed, store=storage.store, artifacts=None)
        checkpoint = newest_checkpoint(directory, number) if number in unfinished else None
        return config if checkpoint is None else replace(config, resume_from=str(checkpoint))

    def conclude(trials: list[TrialSummary]) -> Conclusion:
        return conclude_search(spec, directory, trials)

    run = drive(
        spec,
        storage,
        directory,
        OptunaSource(spec, history),
        make_config,
        conclude,
        tracking_uri=tracking_uri,
        address=address,
        history=history,
        listeners=[BestListener(spec, directory, history)],
        progress_to=progress_to,
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

    def set_run_id(run_id: str) -> None:
        selection = best.selection.model_copy(update={"mlflow_run_id": run_id})
        best.model_copy(update={"selection": selection}).save(directory.best_file)

    files = (directory.spec_file, directory.best_file)
    return Conclusion(best_trial(trials), files=files, set_run_id=set_run_id)
