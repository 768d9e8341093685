"""The driver's own work per reported task, over a search of a thousand trials that compute nothing.

CPU time of the driver's process, all threads of it (Tune's loop, Optuna, record, best file, MLflow in its thread,
display), between one reported task and the next: waiting does not count. Growth is the last tenth of all tasks against
the first tenth.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

from benchmarks.analytic import AnalyticTrial
from benchmarks.performance.lines import Line, column
from tausearch.api import SearchRun, run_search
from tausearch.runs import ExperimentProtocol, Resources, SearchSpec, TrialSummary, created, open_storage

TRIALS, TASKS, CONCURRENT = 1000, AnalyticTrial.tasks, 16


def _milliseconds(what: str, name: str, at_most: float) -> Line:
    return Line(what=what, values=column(name, "algorithm"), unit=" ms", shown=".1f", at_most=at_most)


def _growth(what: str, name: str) -> Line:
    return Line(what=what, values=column(name, "algorithm"), at_most=1.1, floor="1")


LINES = (
    _milliseconds(f"the driver's CPU time for a task, {TRIALS:,} trials, median", "ms per task, median", 15),
    _milliseconds("the same, mean", "ms per task, mean", 25),
    _growth("growth of the median, last tenth of the trials / first", "growth of the median"),
    _growth("growth of the mean", "growth of the mean"),
)


class Meter:
    """Notes the driver's CPU time whenever a task is reported; see `Listener`."""

    def __init__(self) -> None:
        self.marks: list[float] = []

    def trial_changed(self, trial: TrialSummary) -> None:
        """Take note of a task."""
        if trial.status == "running" and trial.rows:
            self.marks.append(time.process_time())


def _spec(trials: int, algorithm: str) -> SearchSpec:
    spaces = {
        "alpha": {"low": 0.01, "high": 100, "log": True, "grid": [1]},
        "lr": {"low": 0.0001, "high": 0.1, "log": True, "grid": [0.01]},
    }
    return SearchSpec(
        name=f"scale-{algorithm}",
        benchmark="digits",
        method="ita-lora",
        protocol=ExperimentProtocol(
            tasks=TASKS, epochs=1, batch_size=1, split_seed=0, backbone="glyph_vit", weights_digest="0" * 64
        ),
        resources=Resources(max_concurrent_trials=CONCURRENT),
        trials=trials,
        steps=TASKS,
        algorithm=algorithm,
        space=spaces,  # type: ignore[arg-type]
        start={"alpha": 0.1, "lr": 0.001},
        fixed={"alpha_cls": 0.1, "alpha_cls_prior": 0.1},
    )


def measure(algorithm: str, trials: int = TRIALS) -> dict[str, Any]:
    """Run one search and return its figures."""
    spec, meter = _spec(trials, algorithm), Meter()

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": CONCURRENT})
    try:
        with tempfile.TemporaryDirectory() as folder:
            root = open_storage(Path(folder), write=True)
            start = time.monotonic()
            with created(spec, root) as (spec, directory):
                run = SearchRun(spec, root, directory, own_listeners=[meter])
                result = run_search(run, address=cluster.address, trainable=AnalyticTrial)
            seconds = time.monotonic() - start
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert sum(trial.status == "complete" for trial in result.trials) == trials and result.tracking_error is None
    work = [1000 * (b - a) for a, b in zip(meter.marks, meter.marks[1:], strict=False)]
    tenth = max(1, trials // 10) * TASKS
    first, last = statistics.median(work[:tenth]), statistics.median(work[-tenth:])
    return {
        "algorithm": algorithm,
        "trials": trials,
        "ms per task, median": statistics.median(work),
        "ms per task, mean": statistics.fmean(work),
        "growth of the median": last / first,
        "growth of the mean": statistics.fmean(work[-tenth:]) / statistics.fmean(work[:tenth]),
        "seconds in all": seconds,
    }


def run() -> list[dict[str, Any]]:
    """Measure TPE, and random search, which leaves the sampler's part out."""
    return [measure(algorithm) for algorithm in ("tpe", "random")]
