"""What a person waits for: from a command to its first trial, and from the end of its last trial to the prompt.

`search` is called with a Ray of its own and on a Ray that is up. Each call is a fresh process, so its imports and its
exit count. The first call of each does not, because it fills the caches of Python and of the disk.

Beside it a driver of Ray alone is timed. Its processes import what those of trials do, until the first one answers.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

from benchmarks.commands import TAUSEARCH
from benchmarks.performance.lines import Line, column
from tausearch.cluster import local_cpus
from tausearch.tracking import Event, TrialBegan, TrialEnded

CALLS, TRIALS = 3, 12
NOTED = "TIMES_OF_TRIALS"  # variable: the file in which the command notes the times
OWN, UP = "started", "up"
_RAY_ALONE = """
import sys, time, ray

@ray.remote(num_cpus=1)
class Process:
    def answer(self):
        import tausearch.cluster.preload

ray.init(sys.argv[1], include_dashboard=False, log_to_driver=False)
processes = [Process.remote() for _ in range(int(ray.cluster_resources()["CPU"]))]
ray.wait([each.answer.remote() for each in processes])
print(time.time())
"""


def _line(ray: str, what: str, at_most: float, part: str = "before", floor: str = "") -> Line:
    alone = column("ray_alone", ray=ray) if floor else None
    values = column(part, ray=ray)
    return Line(what=what, values=values, unit=" s", shown=".1f", at_most=at_most, floor=floor, floors=alone)


LINES = (
    _line(
        OWN,
        "from the command `search digits ita-lora` to the start of its first trial, with its imports and Ray",
        7,
        floor="Ray alone, with torch in each process",
    ),
    _line(UP, "the same with the `--address` of a Ray that is up", 4, floor="the same"),
    _line(OWN, "from the end of its last trial to the prompt, with figures and MLflow", 2, "after"),
    _line(UP, "the same with the `--address` of a Ray that is up", 2, "after"),
)


class Times:
    """A callback that notes when each trial begins and ends."""

    def on_event(self, event: Event) -> None:
        """Add the time to a file."""
        if isinstance(event, TrialBegan | TrialEnded):
            with Path(os.environ[NOTED]).open("a", encoding="utf-8") as file:
                file.write(f"{time.time()}\n")


def run() -> list[dict[str, Any]]:
    """Time the command on both, in turn."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": local_cpus(), "include_dashboard": False})
    try:
        taken: dict[str, list[tuple[float, float, float]]] = {OWN: [], UP: []}
        for _ in range(CALLS + 1):
            taken[OWN].append((*_seconds(), _ray_alone("local")))
            taken[UP].append((*_seconds("--address", cluster.address), _ray_alone(cluster.address)))
    finally:
        cluster.shutdown()
    return [{"ray": ray, "calls": CALLS, **_medians(times[1:])} for ray, times in taken.items()]


def _medians(times: list[tuple[float, float, float]]) -> dict[str, float]:
    return dict(zip(("before", "after", "ray_alone"), map(statistics.median, zip(*times, strict=True)), strict=True))


def _ray_alone(address: str) -> float:
    """Return the seconds from the call of a driver of Ray alone to the answer of its first process."""
    start = time.time()
    command = [sys.executable, "-c", _RAY_ALONE, address]
    return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout) - start


def _seconds(*words: str) -> tuple[float, float]:
    """Return the seconds from the call to the first trial, and from the end of the last one to the prompt."""
    with tempfile.TemporaryDirectory() as folder:
        noted = Path(folder) / "noted"
        search = ["search", "digits", "ita-lora", "--trials", str(TRIALS), "--reevaluate", "0", "--storage", folder]
        command = [TAUSEARCH, *search, "--callback", "benchmarks.waiting:Times", *words]
        start = time.time()
        subprocess.run(command, env={**os.environ, NOTED: str(noted)}, capture_output=True, check=True)
        first, *_, last = map(float, noted.read_text().split())
        return first - start, time.time() - last
