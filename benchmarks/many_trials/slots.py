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
from tausearch.runs import TrialSummary

SHORT = 10_000  # trials of one task
NODES = (16, 16, 16)  # CPUs of each node that Ray believes to have
PER_SLOT = 10  # trials that each of those slots runs on average


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


class Clock:
    """Notes when each task is reported, and how many trials had ended by then; see `Listener`."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, int]] = []
        self._begun: set[int] = set()
        self._ended = 0
        self.all_begun: float | None = None

    def trial_changed(self, trial: TrialSummary) -> None:
        """Take note of a change."""
        if trial.has_ended:
            self._ended += 1
        elif trial.rows:
            self.marks.append((time.monotonic(), self._ended))
            self._begun.add(trial.number)
            if len(self._begun) == sum(NODES):
                self.all_begun = self.all_begun or time.monotonic()


def run_busy(per_slot: int = PER_SLOT) -> list[dict[str, Any]]:
    """Count tasks from the time when all slots have reported one until fewer trials are left than slots."""
    clock, slots = Clock(), sum(NODES)
    trials = per_slot * slots
    analytic_search(trials, NODES, HalfSecondTasks, clock)
    assert clock.all_begun is not None
    inside = [at for at, ended in clock.marks if at >= clock.all_begun and ended < trials - slots]
    rate = (len(inside) - 1) / (inside[-1] - inside[0])
    return [{"slots": slots, "tasks a second": rate, "busy": rate * HalfSecondTasks.seconds_per_task / slots}]
