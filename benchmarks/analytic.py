"""Searches whose trials compute nothing: accuracies by a formula, so that the platform is measured alone."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import ray
from ray import tune
from ray.cluster_utils import Cluster

from tausearch.api import SearchRun, run_search
from tausearch.execution import Listener
from tausearch.runs import ExperimentProtocol, Resources, SearchSpec, created, open_storage
from trainables.metrics import names_of, seconds

CONCURRENT = 16  # trials at a time
RANGES = {"alpha": (0.01, 100), "lr": (0.0001, 0.1)}  # searched on a logarithmic scale


def accuracy(hyperparameters: dict[str, Any], task: int) -> float:
    """Return an average accuracy that falls with tasks and is best at alpha = 1 and lr = 0.01."""
    miss = abs(math.log10(hyperparameters["alpha"])) + abs(math.log10(hyperparameters["lr"]) + 2)
    return 100.0 - 3 * task - miss * task


class AnalyticTrial(tune.Trainable):
    """Reports the metrics row of each task at once.

    Its config is a `TrialConfig` as a dictionary; `hyperparameters` holds `alpha` and `lr`.

    Attributes:
        tasks: Their number.
        seconds_per_task: How long it waits before it reports one.
    """

    tasks: ClassVar[int] = 10
    seconds_per_task: ClassVar[float] = 0.0

    def setup(self, config: dict[str, Any]) -> None:
        """Start before the first task."""
        self.hyperparameters = config["hyperparameters"]
        self.names = names_of(config["purpose"])
        self.task = 0

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Start again as another trial."""
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Report one task."""
        time.sleep(self.seconds_per_task)
        self.task += 1
        values = [accuracy(self.hyperparameters, self.task)] * self.task
        row = {self.names.accuracy(k): value for k, value in enumerate(values, start=1)}
        row |= {"task": float(self.task), self.names.average_accuracy: values[0], seconds("training"): 0.0}
        last = self.task == self.tasks
        if last:
            row |= {self.names.final_accuracy: values[0], self.names.forgetting: 0.0}
        return {**row, "done": last}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the number of tasks done."""
        (Path(checkpoint_dir) / "state.json").write_text(json.dumps(self.task))

    def load_checkpoint(self, checkpoint_dir: str | dict[str, Any] | None) -> None:
        """Go on after the tasks done."""
        self.task = json.loads((Path(str(checkpoint_dir)) / "state.json").read_text())


def analytic_search(
    trials: int,
    nodes: Sequence[int],
    trainable: type[AnalyticTrial],
    listener: Listener | None = None,
    algorithm: str = "random",
) -> float:
    """Run a search in a storage folder of its own, with record and MLflow.

    Args:
        trials: Their number.
        nodes: CPUs of each node that Ray believes to have; a trial takes one.
        trainable: What a trial does.
        listener: Is told of each change of a trial.
        algorithm: What proposes the points.

    Returns:
        Seconds from the call of the search to its end. Ray runs before.
    """
    spec = _spec(trials, sum(nodes), trainable.tasks, algorithm)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": nodes[0]})
    try:
        for cpus in nodes[1:]:
            cluster.add_node(num_cpus=cpus)
        with tempfile.TemporaryDirectory() as folder:
            root = open_storage(Path(folder), write=True)
            start = time.monotonic()
            with created(spec, root) as (spec, directory):
                run = SearchRun(spec, root, directory, own_listeners=[listener] if listener else [])
                result = run_search(run, address=cluster.address, trainable=trainable)
            took = time.monotonic() - start
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert sum(trial.status == "complete" for trial in result.trials) == trials and result.tracking_error is None
    return took


def _spec(trials: int, concurrent: int, tasks: int, algorithm: str) -> SearchSpec:
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
        space=spaces,  # type: ignore[arg-type]
        start={"alpha": 0.1, "lr": 0.001},
        fixed={"alpha_cls": 0.1, "alpha_cls_prior": 0.1},
    )
