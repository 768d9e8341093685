"""The final run: the chosen configuration trained on the whole training set, tested, for several seeds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from search_spaces import Scalar
from tausearch.algorithms import FixedSource
from tausearch.benchmarks import open_benchmark
from tausearch.best import BestFile
from tausearch.drive import Conclusion, RunResult, drive
from tausearch.files import DEFAULT_STORAGE, DEFAULT_STORE_GIGABYTES, RunDirectory, Storage, replace_text
from tausearch.mlflow_store import checked_uri
from tausearch.planning import checked_store, created, new_run, plan_resources
from tausearch.quiet import Stream
from tausearch.record import TrialSummary
from tausearch.spaces import running_method
from tausearch.spec import Protocol, RunSpec, protocol_of
from trainables.backbones import Backbone
from trainables.config import TrialConfig
from trainables.errors import InputError

METRICS = ("test/final_accuracy", "test/forgetting")
DEFAULT_SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class FinalResult(RunResult):
    """Test results of a chosen configuration.

    Attributes:
        summary: Metric to its mean and standard deviation over the seeds, percent.
        results_file: Where they were written.
    """

    summary: dict[str, dict[str, float]]
    results_file: Path


def train(
    best: BestFile,
    *,
    seeds: Sequence[int] = DEFAULT_SEEDS,
    benchmark: str | None = None,
    overrides: Mapping[str, Scalar] | None = None,
    name: str | None = None,
    concurrent: int | None = None,
    cpus_per_trial: int = 1,
    gpus_per_trial: float = 0,
    store_gigabytes: float = DEFAULT_STORE_GIGABYTES,
    data_root: str | Path | None = None,
    storage: str | Path = DEFAULT_STORAGE,
    tracking_uri: str | None = None,
    address: str | None = None,
    progress_to: Stream = "stdout",
) -> FinalResult:
    """Train a chosen configuration on all training data, once per seed, and test it.

    Args:
        best: From `load_best`.
        seeds: One trial each.
        benchmark: Another benchmark to judge the hyperparameters on; by default the one they were chosen on.
        overrides: Hyperparameters that take the place of the best file's, for an ablation.
        name: Of the run; by default the next free `<benchmark>-<method>-final-<number>`.
        concurrent: Seeds at a time; by default as many as fit this machine or the cluster.
        cpus_per_trial: CPU threads of a trial.
        gpus_per_trial: Share of a GPU; 0 trains on the CPU.
        store_gigabytes: Bound on the size of the pre-consolidation store; 0 does without it.
        data_root: Folder of the published datasets; by default that of TAUSEARCH_DATA, or `./tausearch-data`.
        storage: Folder of run directories.
        tracking_uri: MLflow tracking URI; by default a SQLite file in `storage`.
        address: Of a running Ray cluster.
        progress_to: Where progress is shown: "stdout" or "stderr".

    Returns:
        Every seed's trial, and mean and standard deviation of test accuracy and forgetting. Task vectors and adapters
        lie in the run directory.

    Raises:
        InputError: Before any work, if an argument or the best file's protocol is wrong.
    """
    spec, root = _plan(
        best,
        seeds,
        benchmark,
        overrides or {},
        name,
        data_root,
        storage,
        address,
        (cpus_per_trial, gpus_per_trial, concurrent),
    )
    changes = {"store_gigabytes": checked_store(store_gigabytes), "tracking_uri": checked_uri(tracking_uri)}
    spec = spec.model_copy(update=changes)

    with created(spec, root, rename=name is None) as (spec, directory):

        def make_config(number: int, hyperparameters: dict[str, Scalar]) -> TrialConfig:
            artifacts, kept = directory.artifacts, directory.kept(number)
            return spec.trial(number, hyperparameters, seeds[number], store=root.store, artifacts=artifacts, kept=kept)

        def conclude(trials: list[TrialSummary]) -> Conclusion:
            return conclude_final(spec, directory, trials)

        source = FixedSource((number, {}) for number in range(len(seeds)))
        run = drive(spec, root, directory, source, make_config, conclude, address=address, progress_to=progress_to)
    return FinalResult(**vars(run), summary=summarise(run.trials), results_file=directory.results_file)


def _plan(
    best: BestFile,
    seeds: Sequence[int],
    benchmark: str | None,
    overrides: Mapping[str, Scalar],
    name: str | None,
    data_root: str | Path | None,
    storage: str | Path,
    address: str | None,
    resources_wanted: tuple[int, float, int | None],
) -> tuple[RunSpec, Storage]:
    """Check everything that can be wrong with a final run, and say exactly what it will do; starts nothing.

    Returns:
        Specification, and the storage in which it is not created yet.

    Raises:
        InputError: If an argument or the best file's protocol is wrong.
    """
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise InputError(f"--seeds must be different whole numbers from 0, got {' '.join(map(str, seeds))}")
    opened, entry = open_benchmark(benchmark or best.benchmark, data_root), running_method(best.method)
    hyperparameters = {**best.hyperparameters, **overrides}
    hyperparameters = asdict(entry.parse(hyperparameters))
    backbone = Backbone(best.protocol.backbone, None if best.protocol.weights is None else Path(best.protocol.weights))
    protocol = protocol_of(opened.source.spec, best.protocol.split_seed, backbone, best.protocol.precision)
    _require_same_protocol(best, protocol, same_benchmark=str(opened.ref) == best.benchmark)
    opened.require("final", protocol.split_seed, backbone.input)
    resources = plan_resources(*resources_wanted, address)
    root, run_name = new_run(storage, name, f"{opened.ref.slug}-{best.method}-final")
    spec = RunSpec(
        name=run_name,
        id=uuid4().hex,
        purpose="final",
        benchmark=str(opened.ref),
        data_root=opened.data_root,
        method=best.method,
        protocol=protocol,
        resources=resources,
        trials=len(seeds),
        steps=1 if entry.capabilities.joint else opened.source.num_tasks,
        fixed=hyperparameters,
        seeds=tuple(seeds),
        source=best.selection.search,
        tuned_on=best.benchmark,
        overrides=dict(overrides),
    )
    return spec, root


def summarise(trials: Sequence[TrialSummary]) -> dict[str, dict[str, float]]:
    """Return mean and sample standard deviation of each test metric over the seeds that finished; 0 for one seed."""
    finished = [trial.final for trial in trials if trial.status == "complete"]
    summary = {}
    for metric in METRICS:
        values = [row[metric] for row in finished]
        if values:
            deviation = statistics.stdev(values) if len(values) > 1 else 0.0
            summary[metric] = {"mean": statistics.fmean(values), "std": deviation, "seeds": len(values)}
    return summary


def conclude_final(spec: RunSpec, directory: RunDirectory, trials: list[TrialSummary]) -> Conclusion:
    """Write `results.json` from all seeds, and say what MLflow should have."""
    summary = summarise(trials)
    content: dict[str, Any] = {
        "name": spec.name,
        "benchmark": spec.benchmark,
        "method": spec.method,
        "hyperparameters": spec.fixed,
        "protocol": spec.protocol.model_dump(mode="json"),
        "source": spec.source,
        "tuned_on": spec.tuned_on,
        "overrides": spec.overrides,
        "summary": summary,
        "seeds": [{"seed": t.seed, "status": t.status, **{m: t.final.get(m) for m in METRICS}} for t in trials],
    }
    replace_text(directory.results_file, json.dumps(content, indent=2) + "\n")
    metrics = {f"{name}/{part}": parts[part] for name, parts in summary.items() for part in ("mean", "std")}
    return Conclusion(metrics=metrics, files=(directory.spec_file, directory.results_file))


def _require_same_protocol(best: BestFile, now: Protocol, *, same_benchmark: bool) -> None:
    """Refuse to call it the same experiment when what the numbers depend on has changed."""
    keys = ("tasks", "epochs", "batch_size", "weights_digest") if same_benchmark else ("weights_digest",)
    for key in keys:
        was, is_ = getattr(best.protocol, key), getattr(now, key)
        if was != is_:
            raise InputError(f"best file: protocol.{key} is {was}, but {now.backbone} on this benchmark has {is_}")
