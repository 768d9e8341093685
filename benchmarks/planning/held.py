"""The simulation held against a real campaign of 200 trials on this machine.

The durations of tasks and what the platform adds to each are measured on the first trials; the whole is predicted from
them.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import tausearch
from benchmarks.planning.simulator import Machine, Work, simulate
from tausearch import Event, TrialBegan, TrialEnded
from tausearch.cluster import local_cpus
from tausearch.runs import TrialSummary
from trainables.metrics import PRECONSOLIDATION, is_seconds, seconds

CAMPAIGN = """
campaign: held
benchmarks: ["digits?epochs=1", "letters?epochs=1"]
methods: [finetune, ewc]
search: {trials: 49, algorithm: random, reevaluate: 0}
train: {seeds: [0]}
"""
TRIALS, SEEDS = 49, 1
FIRST = 5  # trials of a cell whose tasks are measured


class Clock:
    """Notes when trials begin and end; see `tausearch.Callback`."""

    def __init__(self) -> None:
        self.began: float | None = None
        self.ended: list[tuple[float, str, TrialSummary]] = []

    def on_event(self, event: Event) -> None:
        """Note the time of an event."""
        now = time.monotonic()
        if isinstance(event, TrialBegan) and self.began is None:
            self.began = now
        elif isinstance(event, TrialEnded):
            self.ended.append((now, f"{event.run.benchmark} {event.run.method}", event.trial))


def run() -> list[dict[str, Any]]:
    """Run the campaign, predict it from its first trials, and return both durations."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "campaign.yaml"
        file.write_text(CAMPAIGN, encoding="utf-8")
        tausearch.campaign(file, storage=folder, tracking="none", callbacks=[clock])
    assert clock.began is not None, "trials began"
    took = clock.ended[-1][0] - clock.began
    slots, added = local_cpus(), added_per_task(clock)
    predicted = simulate(cells_of(clock, added), Machine(slots)).seconds
    return [
        {"trials": len(clock.ended), "slots": slots, "took": took, "predicted": predicted, "ratio": predicted / took}
    ]


def added_per_task(clock: Clock) -> float:
    """Return the seconds of a slot beside each task, over the first tenth of all trials."""
    tenth = clock.ended[: len(clock.ended) // 10]
    assert clock.began is not None, "trials began"
    elapsed = local_cpus() * (tenth[-1][0] - clock.began)
    tasks = [each for _, _, trial in tenth for each in task_seconds(trial)]
    return (elapsed - sum(tasks)) / len(tasks)


def cells_of(clock: Clock, added: float) -> list[Work]:
    """Return the cells of the campaign, with the mean durations of the first trials of each."""
    first: dict[str, list[list[float]]] = defaultdict(list)
    for _, cell, trial in clock.ended:
        if len(first[cell]) < FIRST:
            first[cell].append(task_seconds(trial))
    durations = [tuple(added + fmean(task) for task in zip(*rows, strict=True)) for rows in first.values()]
    return [Work(each, TRIALS, SEEDS, at_once=TRIALS) for each in durations]


def task_seconds(trial: TrialSummary) -> list[float]:
    """Return the seconds of each task of a trial, without pre-consolidation."""
    left_out = seconds(PRECONSOLIDATION)
    return [sum(v for name, v in row.items() if is_seconds(name) and name != left_out) for row in trial.rows]
