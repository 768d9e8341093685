"""A search of trials that compute nothing, with record and MLflow, in a storage folder of its own."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

from benchmarks.many_trials.analytic import AnalyticTrial
from tausearch.api import SearchRun, run_search
from tausearch.execution import DriveOptions
from tausearch.runs import ExperimentProtocol, Reevaluate, Resources, SearchSpec, new_locked_run, open_storage
from tausearch.studies import TrialListener

CONCURRENT = 16  # trials at a time
RANGES = {"alpha": (0.01, 100), "lr": (0.0001, 0.1)}  # searched on a logarithmic scale


def analytic_search(
    trials: int,
    nodes: Sequence[int],
    trainable: type[AnalyticTrial],
    listener: TrialListener | None = None,
    algorithm: str = "random",
    reevaluate: Reevaluate | None = None,
) -> float:
    """Run a search, and return the seconds from its call to its end; Ray runs before.

    `nodes` are the CPUs of each node that Ray believes to have; a trial takes one.
    """
    spec = _spec(trials, sum(nodes), trainable.tasks, algorithm, reevaluate)
    with on_nodes(nodes) as address, tempfile.TemporaryDirectory() as folder:
        root = open_storage(Path(folder), write=True)
        start = time.monotonic()
        with new_locked_run(spec.model_copy(update={"address": address}), root) as (spec, directory):
            run = SearchRun(spec, root, directory)
            run.own_listeners = [*run.own_listeners, *([listener] if listener else [])]
            result = run_search(run, DriveOptions(trainable=trainable))
        took = time.monotonic() - start
    assert sum(trial.status == "complete" for trial in result.trials) == trials and result.tracking_error is None
    return took


@contextmanager
def on_nodes(nodes: Sequence[int]) -> Iterator[str]:
    """Run Ray as if on several nodes, with these CPUs each; yields its address."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": nodes[0]})
    try:
        for cpus in nodes[1:]:
            cluster.add_node(num_cpus=cpus)
        yield cluster.address
    finally:
        ray.shutdown()
        cluster.shutdown()


def _spec(trials: int, concurrent: int, tasks: int, algorithm: str, reevaluate: Reevaluate | None) -> SearchSpec:
    spaces = {name: {"low": low, "high": high, "log": True, "grid": [low]} for name, (low, high) in RANGES.items()}
    return SearchSpec(
        name=f"analytic-{algorithm}",
        benchmark="digits",
        method="ita-lora",
        protocol=ExperimentProtocol(
            tasks=tasks, epochs=1, batch_size=1, split_seed=0, backbone="glyph_vit", weights_digest="0" * 64
        ),
        resources=Resources(max_concurrent_trials=concurrent),
        trials=trials,
        steps=tasks,
        algorithm=algorithm,
        reevaluate=reevaluate,
        space=spaces,  # type: ignore[arg-type]
        start={"alpha": 0.1, "lr": 0.001},
        fixed={"alpha_cls": 0.1, "alpha_cls_prior": 0.1},
    )
