"""The time from a command to the start of its first trial: `search` with a Ray of its own, and on a Ray that is up.

The command is a fresh process, so its imports count. The first call does not, because it fills the caches of Python and
of the disk.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

from benchmarks.commands import TAUSEARCH
from benchmarks.performance.lines import Line, column
from tausearch.cluster import local_cpus
from tausearch.tracking import Event, TrialBegan

CALLS = 5
NOTED = "FIRST_TRIAL"  # variable: the file in which the command notes the time
OWN, UP = "started", "up"


def _line(ray: str, what: str, at_most: float) -> Line:
    return Line(what=what, values=column("seconds", ray=ray), unit=" s", shown=".1f", at_most=at_most)


LINES = (
    _line(
        OWN, "from the command `search digits ita-lora` to the start of its first trial, with its imports and Ray", 7
    ),
    _line(UP, "the same with the `--address` of a Ray that is up", 4),
)


class FirstTrial:
    """A callback that notes when the first trial begins to compute."""

    def on_event(self, event: Event) -> None:
        """Write the time to a file."""
        noted = Path(os.environ[NOTED])
        if isinstance(event, TrialBegan) and not noted.exists():
            noted.write_text(str(time.time()))


def run() -> list[dict[str, Any]]:
    """Time the command on both, in turn."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": local_cpus(), "include_dashboard": False})
    try:
        taken: dict[str, list[float]] = {OWN: [], UP: []}
        for _ in range(CALLS + 1):
            taken[OWN].append(_seconds())
            taken[UP].append(_seconds("--address", cluster.address))
    finally:
        cluster.shutdown()
    return [
        {"ray": ray, "calls": CALLS, "seconds": statistics.median(times[1:]), "least": min(times[1:])}
        for ray, times in taken.items()
    ]


def _seconds(*words: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        noted = Path(folder) / "noted"
        search = ["search", "digits", "ita-lora", "--trials", "2", "--epochs", "1", "--storage", folder]
        command = [TAUSEARCH, *search, "--callback", "benchmarks.first_trial:FirstTrial", *words]
        start = time.time()
        subprocess.run(command, env={**os.environ, NOTED: str(noted)}, capture_output=True, check=True)
        return float(noted.read_text()) - start
