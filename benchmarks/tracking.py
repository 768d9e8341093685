"""Whether MLflow keeps up with fifty tasks a second: trials of ten tasks, sixteen at a time, for two minutes.

The driver's own announcer and MLflow callback are told of each task when it is due. Into the SQLite file of a storage,
and into a PostgreSQL. Afterwards every trial is looked up.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from benchmarks.performance.lines import Line, column
from tausearch.execution.announcer import Announcer
from tausearch.execution.run import Run
from tausearch.runs import TrialSummary, TrialTable, open_storage
from tausearch.runs.creation import make_run_directory
from tausearch.studies import FixedSearcher
from tausearch.tracking import Deliveries, MlflowCallback, RunEnded
from tausearch.tracking.mlflow_store import search_runs
from tests.support.drivers.services import postgresql
from tests.support.runs.trials import make_trial, search_spec

PACE, SECONDS = 50, 120  # tasks a second
TASKS, AT_ONCE = 10, 16
TRIALS = PACE * SECONDS // TASKS

LINES = (
    Line(
        what=f"tasks that MLflow lacks after {SECONDS} s with {PACE} tasks a second",
        values=column("lost", "store"),
        shown=".0f",
        at_most=0,
    ),
    Line(what="seconds that MLflow needs after the last task", values=column("lag", "store"), unit=" s", at_most=10),
    Line(what="longest wait of the driver to tell a task", values=column("ms", "store"), unit=" ms", shown=".1f"),
)


def run() -> list[dict[str, Any]]:
    """Measure SQLite, then PostgreSQL."""
    with tempfile.TemporaryDirectory() as folder:
        found = [{"store": "SQLite", **_measured(Path(folder), None)}]
    with tempfile.TemporaryDirectory() as folder, postgresql() as store:
        return [*found, {"store": "PostgreSQL", **_measured(Path(folder), store)}]


def _measured(folder: Path, store: str | None) -> dict[str, float]:
    storage = open_storage(folder, write=True)
    protocol = search_spec().protocol.model_copy(update={"tasks": TASKS})
    changes = {"trials": TRIALS, "steps": TASKS, "protocol": protocol, "tracking_uri": store}
    spec, directory = make_run_directory(search_spec().model_copy(update=changes), storage)
    callback = MlflowCallback()
    deliveries = Deliveries(trackers={"mlflow": lambda: callback})
    run = Run(spec, storage, directory, FixedSearcher([]), TrialTable())
    announcer = Announcer(run, deliveries.of(spec))
    longest = max(_told(announcer))
    start = time.perf_counter()
    announcer.end(RunEnded(run.info, stopped=False, trials=tuple(run.trials)))
    deliveries.tracker("mlflow").flush()
    error = callback.finish(spec)
    lag = time.perf_counter() - start
    assert error is None, error
    client = MlflowClient(tracking_uri=store or storage.mlflow_uri)
    [experiment] = [each for each in client.search_experiments() if each.name == spec.benchmark]
    nested = search_runs(client, experiment.experiment_id, f"tags.role = '{spec.role}'")
    metric = spec.metrics.average_accuracy
    points = [
        (each.info.run_id, p.step) for each in nested for p in client.get_metric_history(each.info.run_id, metric)
    ]
    assert len(points) == len(set(points)), "a task was written twice"
    return {"lag": lag, "ms": 1000 * longest, "lost": TRIALS * TASKS - len(points)}


def _told(announcer: Announcer) -> Iterator[float]:
    """Tell each task when it is due; yields the seconds that the teller waited."""
    start = time.perf_counter()
    for number, trial in enumerate(_tasks()):
        time.sleep(max(0.0, start + number / PACE - time.perf_counter()))
        before = time.perf_counter()
        announcer.run.trials.put(trial)
        announcer.trial_changed(trial)
        yield time.perf_counter() - before


def _tasks() -> Iterator[TrialSummary]:
    """Yield the trials after each of their tasks, those that run at the same time in turn."""
    for first in range(0, TRIALS, AT_ONCE):
        for task in range(1, TASKS + 1):
            for number in range(first, min(first + AT_ONCE, TRIALS)):
                yield make_trial(number, tasks=task, value=80.0 if task == TASKS else None)
