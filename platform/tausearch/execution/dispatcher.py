"""Choose the next trial among several runs that share one Ray."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from search_spaces import Scalar
from tausearch.cluster import concurrent_trials
from tausearch.execution.run import Run

HOLDS_SECONDS = 1.0  # for which the capacity of the cluster is taken as known

Capacity = Callable[[], tuple[float, float]]
"""Returns the current numbers of CPUs and GPUs."""


class Queue(Protocol):
    """Runs that share one Ray, in the order in which they should end."""

    def open_next(self) -> Run | None:
        """Open the next run; None if no run is left."""
        ...

    def ended(self, run: Run) -> Run | None:
        """Note that all trials of a run have ended; returns the run that takes its place."""
        ...


class Dispatcher:
    """Hands out the trials of all runs. While there is room, the first run with a trial gives the next one.

    `tausearch.cluster.concurrent_trials` bounds the trials of a run, so that an algorithm that learns is not asked
    for all of them at once. The room that this leaves goes to the runs behind it.

    Args:
        queue: Opens runs as they are needed.
        capacity: Returns the current numbers of CPUs and GPUs; asked repeatedly, because a cluster can grow.
        max_concurrent_trials: Trials at a time, of all runs together; None for as many as fit.
    """

    def __init__(self, queue: Queue, capacity: Capacity, max_concurrent_trials: int | None = None) -> None:
        self.queue = queue
        self.capacity = capacity
        self.max_concurrent_trials = max_concurrent_trials
        self.open: list[Run] = []
        self._known: dict[str, Run] = {}
        self._all_opened = False
        self._has, self._asked = (0.0, 0.0), -math.inf

    def __getitem__(self, name: str) -> Run:
        """Return the run with a name, also after it has ended."""
        return self._known[name]

    @property
    def finished(self) -> bool:
        """Whether all runs have ended."""
        return self._all_opened and not self.open

    @property
    def active(self) -> int:
        """Number of trials that Tune runs."""
        return sum(len(run.active) for run in self.open)

    def next(self) -> tuple[Run, int, dict[str, Scalar]] | None:
        """Return the next trial: its run, number and hyperparameters; None if there is none now."""
        self._look()
        position = 0
        while self._has_room() and (run := self._at(position)) is not None:
            found = run.next_trial() if self._takes(run) else None
            if found is not None:
                return run, *found
            if run.has_ended:
                self._replace(run)
            else:
                position += 1
        return None

    def _look(self) -> None:
        if time.monotonic() - self._asked > HOLDS_SECONDS:
            self._has, self._asked = self.capacity(), time.monotonic()

    def _at(self, position: int) -> Run | None:
        """Return the run at a position, opened if it is the next; None after the last."""
        if position == len(self.open) and not self._all_opened:
            run = self.queue.open_next()
            if run is None:
                self._all_opened = True
            else:
                self._enter(position, [run])
        return self.open[position] if position < len(self.open) else None

    def _replace(self, run: Run) -> None:
        """Put the follower of an ended run in its place, so that early runs finish first."""
        position, follower = self.open.index(run), self.queue.ended(run)
        del self.open[position]
        self._enter(position, [] if follower is None else [follower])

    def _enter(self, position: int, runs: Sequence[Run]) -> None:
        self.open[position:position] = runs
        self._known |= {run.spec.name: run for run in runs}

    def _has_room(self) -> bool:
        """Whether there is room for another trial of any run."""
        if self.max_concurrent_trials is not None:
            return self.active < self.max_concurrent_trials
        return self._used()[0] < self._has[0] or self.active == 0

    def _takes(self, run: Run) -> bool:
        """Whether there is room for another trial of a run."""
        if len(run.active) >= max(1, concurrent_trials(run.spec, *self._has)):
            return False
        if self.max_concurrent_trials is not None or self.active == 0:
            return True
        left = [has - used for has, used in zip(self._has, self._used(), strict=True)]
        wanted = run.spec.resources
        return left[0] >= wanted.cpus_per_trial and left[1] >= wanted.gpus_per_trial - 1e-6  # rounding

    def _used(self) -> tuple[float, float]:
        each = [(len(run.active), run.spec.resources) for run in self.open]
        return sum(n * has.cpus_per_trial for n, has in each), sum(n * has.gpus_per_trial for n, has in each)
