"""What a search of thousands of trials takes when it goes on: trials of ten tasks, recorded by hand.

`runs sync` writes them to an empty MLflow. Then another process continues the search with TPE and sixteen trials that
compute nothing. It counts its seconds from its start to the first task that is reported, and its memory at its end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.commands import TAUSEARCH
from benchmarks.many_trials.analytic import AnalyticTrial
from benchmarks.many_trials.recorded import SEARCH, recorded_search
from benchmarks.performance.lines import Line, Rows, column
from benchmarks.vit_b16 import most_held
from tausearch.api import SearchRun, run_search
from tausearch.execution import DriveOptions
from tausearch.runs import TrialSummary, driver_lock, open_storage, read_spec

FEW, MANY, MORE = 500, 5000, 16  # trials


def _memory(rows: Rows) -> dict[str, float]:
    """Return the memory with many trials, as a multiple of that with few."""
    used = {row["trials"]: row["MiB"] for row in rows}
    return {"": used[MANY] / used[FEW]} if used else {}


def _seconds(what: str, name: str, at_most: float) -> Line:
    return Line(what=what, values=column(name, trials=MANY), unit=" s", shown=".1f", at_most=at_most)


LINES = (
    _seconds(f"`runs sync` of a search of {MANY:,} trials of ten tasks, into an empty MLflow", "sync", 120),
    _seconds("`resume` of the same with TPE, from the start of the process to the first task", "resume", 20),
    Line(what=f"the driver's memory, {MANY:,} trials / {FEW}", values=_memory, at_most=1.5),
)


class FirstTask:
    """Notes when the first task is reported; see `TrialListener`."""

    def __init__(self) -> None:
        self.time: float | None = None

    def trial_changed(self, trial: TrialSummary) -> None:
        """Take note of a task."""
        if trial.rows and self.time is None:
            self.time = time.time()


def run() -> list[dict[str, Any]]:
    """Measure a search of few and one of many trials."""
    return [_measured(trials) for trials in (FEW, MANY)]


def _measured(trials: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        recorded_search(open_storage(Path(folder), write=True), trials, trials + MORE)
        start = time.perf_counter()
        subprocess.run([TAUSEARCH, "runs", "sync", SEARCH, "--storage", folder], capture_output=True, check=True)
        sync = time.perf_counter() - start
        continued = [sys.executable, "-m", "benchmarks.many_trials.thousands", folder]
        done = subprocess.run(continued, capture_output=True, text=True, check=True)
    return {"trials": trials, "sync": sync, **json.loads(done.stdout.splitlines()[-1])}


def _go_on(folder: Path) -> None:
    """Continue the search in this process, and print what that took."""
    root, first = open_storage(folder, write=True), FirstTask()
    directory = root.run(SEARCH)
    with driver_lock(directory):
        spec = read_spec(directory)
        assert spec.purpose == "search"
        run = SearchRun(spec, root, directory)
        run.own_listeners = [*run.own_listeners, first]
        result = run_search(run, DriveOptions(trainable=AnalyticTrial))
    ended = [trial for trial in result.trials if trial.status == "complete"]
    assert first.time is not None and len(ended) == spec.trials and result.tracking_error is None
    mebibytes = most_held(os.getpid()) / 2**20  # `ru_maxrss` of a new process is at least that of its parent
    print(json.dumps({"resume": first.time - psutil.Process().create_time(), "MiB": mebibytes}))


if __name__ == "__main__":
    _go_on(Path(sys.argv[1]))
