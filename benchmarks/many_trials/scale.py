"""The driver's own work per reported task, over a search of thousands of trials that compute nothing.

CPU time of the driver's process, all threads of it (Tune's loop, Optuna, record, best file, MLflow in its thread,
display), between one reported task and the next: waiting does not count. Growth is the last tenth of all tasks against
the first tenth.
"""

from __future__ import annotations

import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from benchmarks.many_trials.analytic import AnalyticTrial
from benchmarks.many_trials.searching import CONCURRENT, analytic_search
from benchmarks.performance.lines import Line, column
from tausearch.runs import TrialSummary

TRIALS, TASKS = 5000, AnalyticTrial.tasks


def _milliseconds(what: str, name: str, at_most: float) -> Line:
    return Line(what=what, values=column(name, "algorithm"), unit=" ms", shown=".1f", at_most=at_most)


def _growth(what: str, name: str) -> Line:
    return Line(what=what, values=column(name, "algorithm"), at_most=1.1, floor="1")


LINES = (
    _milliseconds(f"the driver's CPU time for a task, {TRIALS:,} trials of {TASKS} tasks, median", "median", 15),
    _milliseconds("the same, mean", "mean", 25),
    _growth("growth of the median, last tenth of the trials / first", "growth of the median"),
    _growth("growth of the mean", "growth of the mean"),
)


class Meter:
    """Notes the driver's CPU time whenever a task is reported; see `TrialListener`."""

    def __init__(self) -> None:
        self.marks: list[float] = []

    def trial_changed(self, trial: TrialSummary) -> None:
        """Take note of a task; the last of a trial comes with its end."""
        if trial.rows:
            self.marks.append(time.process_time())


def measure(algorithm: str, trials: int = TRIALS) -> dict[str, Any]:
    """Run one search and return its figures, in milliseconds per task."""
    meter = Meter()
    analytic_search(trials, [CONCURRENT], AnalyticTrial, meter, algorithm)
    assert len(meter.marks) == trials * TASKS
    work = [1000 * (b - a) for a, b in zip(meter.marks, meter.marks[1:], strict=False)]
    tenth = max(1, trials // 10) * TASKS
    first, last = work[:tenth], work[-tenth:]
    return {
        "algorithm": algorithm,
        "trials": trials,
        "median": statistics.median(work),
        "mean": statistics.fmean(work),
        "growth of the median": statistics.median(last) / statistics.median(first),
        "growth of the mean": statistics.fmean(last) / statistics.fmean(first),
    }


def run() -> list[dict[str, Any]]:
    """Measure TPE, and random search, which leaves the sampler's part out; each in a process, as a command has it."""
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        return list(pool.map(measure, ("tpe", "random")))
