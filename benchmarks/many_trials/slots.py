"""How well the driver keeps many slots busy, with trials that wait and compute nothing, beside Ray Tune's own driver.

`short-trials` runs thousands of trials of one task of a second: in all by a search with record and MLflow, and by Ray
Tune with its own callback for MLflow. `slots` counts the tasks that are reported while 48 trials run at a time: by a
search with record and MLflow, and by Ray Tune with neither.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from typing import Any

import ray
from ray import tune
from ray.air.integrations.mlflow import MLflowLoggerCallback

from benchmarks.many_trials.analytic import AnalyticTrial, HalfSecondTasks, SecondTrial
from benchmarks.many_trials.searching import CONCURRENT, RANGES, analytic_search, on_nodes
from benchmarks.overhead import Clock
from benchmarks.performance.lines import Line, column

SHORT = 10_000  # trials of one task
NODES = (16, 16, 16)  # CPUs of each node that Ray believes to have
SLOTS = sum(NODES)
PER_SLOT = 10  # trials that each of those slots runs on average
OURS, TUNE = "tausearch", "Ray Tune"
SHORT_LINES = (
    Line(
        what=f"{SHORT:,} trials of one task of a second, {CONCURRENT} at a time: their time over the least possible",
        values=column("times", program=OURS),
        at_most=1.3,
        floor="Ray Tune with its callback for MLflow",
        floors=column("times", program=TUNE),
    ),
)
LINES = (
    Line(
        what=f"{SLOTS} slots on {len(NODES)} nodes, tasks of half a second: share of the slots that is busy",
        values=column("busy", program=OURS, times=100),
        unit=" %",
        shown=".0f",
        at_least=90,
        floor="Ray Tune, without record and MLflow",
        floors=column("busy", program=TUNE, times=100),
    ),
)
Told = tuple[float, Any, bool]  # a task: when it was reported, by which trial, and whether it is the trial's last


def run_short(trials: int = SHORT) -> list[dict[str, Any]]:
    """Measure both programs, one after the other."""
    least = trials * SecondTrial.seconds_per_task / CONCURRENT
    with tempfile.TemporaryDirectory() as folder:
        tracker = MLflowLoggerCallback(f"sqlite:///{folder}/mlflow.db", experiment_name="short-trials")
        found = {
            OURS: analytic_search(trials, [CONCURRENT], SecondTrial),
            TUNE: _by_ray_tune(trials, [CONCURRENT], SecondTrial, tracker),
        }
    return [{"program": name, "seconds": took, "times": took / least} for name, took in found.items()]


def run_busy(per_slot: int = PER_SLOT) -> list[dict[str, Any]]:
    """Measure both programs, one after the other."""
    clock, heard, trials = Clock(), Heard(), per_slot * SLOTS
    analytic_search(trials, NODES, HalfSecondTasks, clock)
    _by_ray_tune(trials, NODES, HalfSecondTasks, heard)
    ours = [(now, trial.number, trial.has_ended) for now, trial in clock.events if trial.rows]
    return [{"program": name, **_busy(tasks)} for name, tasks in ((OURS, ours), (TUNE, heard.tasks))]


class Heard(tune.Callback):
    """Notes the tasks that Ray Tune reports."""

    def __init__(self) -> None:
        self.tasks = list[Told]()

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Note a task."""
        self.tasks.append((time.monotonic(), trial.trial_id, result["done"]))


def _busy(tasks: Sequence[Told]) -> dict[str, float]:
    """Count tasks from the time when all slots have reported one until fewer trials are left than slots."""
    first = {trial: now for now, trial, _ in reversed(tasks)}
    start, end = sorted(first.values())[SLOTS - 1], [now for now, _, is_last in tasks if is_last][-SLOTS]
    rate = sum(start < now <= end for now, _, _ in tasks) / (end - start)
    return {"slots": SLOTS, "tasks a second": rate, "busy": rate * HalfSecondTasks.seconds_per_task / SLOTS}


def _by_ray_tune(trials: int, nodes: Sequence[int], trainable: type[AnalyticTrial], callback: tune.Callback) -> float:
    """Run as many trials by Ray Tune alone, and return its seconds.

    Tune writes checkpoints; trials of one task have none, as in a search.
    """
    points = {name: tune.loguniform(*bounds) for name, bounds in RANGES.items()}
    with on_nodes(nodes) as address, tempfile.TemporaryDirectory() as folder:
        ray.init(address=address)
        tuner = tune.Tuner(
            trainable,
            param_space={"purpose": "search", "hyperparameters": points},
            tune_config=tune.TuneConfig(num_samples=trials, reuse_actors=True),
            run_config=tune.RunConfig(
                storage_path=folder,
                callbacks=[callback],
                checkpoint_config=tune.CheckpointConfig(
                    checkpoint_frequency=int(trainable.tasks > 1), checkpoint_at_end=False
                ),
                verbose=0,
            ),
        )
        start = time.monotonic()
        results = tuner.fit()
        took = time.monotonic() - start
    assert len(results) == trials and not results.errors
    return took
