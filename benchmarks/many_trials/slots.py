"""How well the driver keeps many slots busy, with trials that wait and compute nothing.

`short-trials` runs thousands of trials of one task of a second: in all by a search with record and MLflow, and by Ray
Tune with its own callback for MLflow. `slots` counts the tasks that a search reports while 48 trials run at a time.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any

import ray
from ray import tune
from ray.air.integrations.mlflow import MLflowLoggerCallback

from benchmarks.many_trials.analytic import HalfSecondTasks, SecondTrial
from benchmarks.many_trials.searching import CONCURRENT, RANGES, analytic_search
from benchmarks.overhead import Clock
from benchmarks.performance.lines import Line, column

SHORT = 10_000  # trials of one task
NODES = (16, 16, 16)  # CPUs of each node that Ray believes to have
PER_SLOT = 10  # trials that each of those slots runs on average
LINES = (
    Line(
        what=f"{sum(NODES)} slots on {len(NODES)} nodes, tasks of half a second: share of the slots that is busy",
        values=column("busy", times=100),
        unit=" %",
        shown=".0f",
        at_least=90,
    ),
)


def run_short(trials: int = SHORT) -> list[dict[str, Any]]:
    """Measure both programs, one after the other."""
    least = trials * SecondTrial.seconds_per_task / CONCURRENT
    found = {"tausearch": analytic_search(trials, [CONCURRENT], SecondTrial), "Ray Tune": _by_ray_tune(trials)}
    return [{"program": name, "seconds": took, "times": took / least} for name, took in found.items()]


def _by_ray_tune(trials: int) -> float:
    """Run the same trials by Ray Tune alone; returns its seconds."""
    points = {name: tune.loguniform(*bounds) for name, bounds in RANGES.items()}
    ray.init(num_cpus=CONCURRENT, include_dashboard=False)
    try:
        with tempfile.TemporaryDirectory() as folder:
            tracker = MLflowLoggerCallback(f"sqlite:///{folder}/mlflow.db", experiment_name="short-trials")
            tuner = tune.Tuner(
                SecondTrial,
                param_space={"purpose": "search", "hyperparameters": points},
                tune_config=tune.TuneConfig(num_samples=trials, reuse_actors=True),
                run_config=tune.RunConfig(storage_path=folder, callbacks=[tracker], verbose=0),
            )
            start = time.monotonic()
            results = tuner.fit()
            took = time.monotonic() - start
    finally:
        ray.shutdown()
    assert len(results) == trials and not results.errors
    return took


def run_busy(per_slot: int = PER_SLOT) -> list[dict[str, Any]]:
    """Count tasks from the time when all slots have reported one until fewer trials are left than slots."""
    clock, slots = Clock(), sum(NODES)
    analytic_search(per_slot * slots, NODES, HalfSecondTasks, clock)
    tasks = [(now, trial) for now, trial in clock.events if trial.rows]  # the last of a trial comes with its end
    first = {trial.number: now for now, trial in reversed(tasks)}
    ends = [now for now, trial in tasks if trial.has_ended]
    start, end = sorted(first.values())[slots - 1], ends[-slots]
    rate = sum(start < now <= end for now, _ in tasks) / (end - start)
    return [{"slots": slots, "tasks a second": rate, "busy": rate * HalfSecondTasks.seconds_per_task / slots}]
