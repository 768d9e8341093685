"""The runs that share one Ray, and which of their trials comes next."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from search_spaces import Scalar
from tausearch.cluster import max_concurrent_trials
from tausearch.execution.job import Job, Listener
from tausearch.runs import RunSpec, Status, TrialSummary
from trainables.metrics import MetricNames

HOLDS_SECONDS = 1.0  # for which an answer to "what is there to compute with" holds

Capacity = Callable[[], tuple[float, float]]
"""Says how many CPUs and GPUs there are just now."""


@dataclass
class OpenRun:
    """A job under way.

    Attributes:
        job: What is driven.
        listeners: Told of every change of its trials, in this order; the record is the first.
        out: Numbers of its trials that Tune has and that have not ended.
        exhausted: Whether its source has no more trials, and will have none.
    """

    job: Job
    listeners: Sequence[Listener]
    out: set[int] = field(default_factory=set)
    exhausted: bool = False

    @property
    def spec(self) -> RunSpec:
        """What was asked for."""
        return self.job.spec

    @property
    def names(self) -> MetricNames:
        """Names of the accuracies that its trials report."""
        return self.job.spec.metrics

    @property
    def over(self) -> bool:
        """Whether all of its trials have ended."""
        return self.exhausted and not self.out

    def next(self) -> tuple[int, dict[str, Scalar]] | None:
        """Return number and hyperparameters of its next trial; None if there is none now."""
        found = None if self.exhausted else self.job.source.next()
        if found is None:
            self.exhausted = not self.out  # the end of one that is out may call for another
        else:
            self.out.add(found[0])
        return found

    def finish(self, number: int, status: Status, value: float | None) -> None:
        """Take note of how one of its trials ended."""
        self.out.discard(number)
        self.job.source.finish(number, status, value)

    def summary(self, number: int, seed: int, hyperparameters: dict[str, Scalar]) -> TrialSummary:
        """Return what is known of a trial; of one that starts now, that it runs."""
        return self.job.trials.get(number) or TrialSummary(number, seed, "running", dict(hyperparameters))


class Line(Protocol):
    """The runs that are to be driven, in the order in which they are to be finished."""

    def open_next(self) -> OpenRun | None:
        """Open the next run; None if there is none left."""
        ...

    def ended(self, run: OpenRun) -> OpenRun | None:
        """Take note that all trials of a run have ended; returns the run that takes its place, if one does."""
        ...


class Alone:
    """A `Line` of one run, and of what follows it.

    Args:
        run: The run.
        follow: Opens the run that follows it, if one does.
    """

    def __init__(self, run: OpenRun, follow: Callable[[], OpenRun | None] = lambda: None) -> None:
        self.left = [run]
        self.follow = follow

    def open_next(self) -> OpenRun | None:
        """Open the run."""
        return self.left.pop() if self.left else None

    def ended(self, run: OpenRun) -> OpenRun | None:
        """Open what follows, once."""
        follow, self.follow = self.follow, lambda: None
        return follow()


class Fleet:
    """Hands out the trials of all runs: those of the first run that has one to give, as far as there is room.

    `tausearch.cluster.max_concurrent_trials` bounds the trials of a run, so that an algorithm that learns is not asked
    for all of them at once. The room that this leaves goes to the runs behind it.

    Args:
        line: Opens runs as they are needed.
        capacity: Says what there is to compute with; asked again and again, because a cluster grows.
        concurrent: Trials at a time, of all runs together; None for as many as fit.
    """

    def __init__(self, line: Line, capacity: Capacity, concurrent: int | None = None) -> None:
        self.line = line
        self.capacity = capacity
        self.concurrent = concurrent
        self.open: list[OpenRun] = []
        self._known: dict[str, OpenRun] = {}
        self._all_opened = False
        self._has, self._asked = (0.0, 0.0), -math.inf

    def __getitem__(self, name: str) -> OpenRun:
        """Return the run of that name; one that has ended, too."""
        return self._known[name]

    @property
    def finished(self) -> bool:
        """Whether all runs have ended."""
        return self._all_opened and not self.open

    @property
    def out(self) -> int:
        """Number of trials that Tune has and that have not ended."""
        return sum(len(run.out) for run in self.open)

    def next(self) -> tuple[OpenRun, int, dict[str, Scalar]] | None:
        """Return the next trial: its run, number and hyperparameters; None if there is none just now."""
        self._look()
        position = 0
        while self._has_room() and (run := self._at(position)) is not None:
            found = run.next() if self._takes(run) else None
            if found is not None:
                return run, *found
            if run.over:
                self._replace(run)
            else:
                position += 1
        return None

    def _look(self) -> None:
        if time.monotonic() - self._asked > HOLDS_SECONDS:
            self._has, self._asked = self.capacity(), time.monotonic()

    def _at(self, position: int) -> OpenRun | None:
        """Return the run at a place in the line, opened if it is the next; None beyond the last."""
        if position == len(self.open) and not self._all_opened:
            run = self.line.open_next()
            if run is None:
                self._all_opened = True
            else:
                self._enter(position, [run])
        return self.open[position] if position < len(self.open) else None

    def _replace(self, run: OpenRun) -> None:
        """Let what follows a run that is over take its place, so that early runs are finished first."""
        position, follower = self.open.index(run), self.line.ended(run)
        del self.open[position]
        self._enter(position, [] if follower is None else [follower])

    def _enter(self, position: int, runs: Sequence[OpenRun]) -> None:
        self.open[position:position] = runs
        self._known |= {run.spec.name: run for run in runs}

    def _has_room(self) -> bool:
        """Whether another trial, of whichever run, might run."""
        if self.concurrent is not None:
            return self.out < self.concurrent
        return self._used()[0] < self._has[0] or self.out == 0

    def _takes(self, run: OpenRun) -> bool:
        """Whether there is room for another trial of a run."""
        if len(run.out) >= max(1, max_concurrent_trials(run.spec, *self._has)):
            return False
        if self.concurrent is not None or self.out == 0:
            return True
        left = [has - used for has, used in zip(self._has, self._used(), strict=True)]
        wanted = run.spec.resources
        return left[0] >= wanted.cpus_per_trial and left[1] >= wanted.gpus_per_trial - 1e-6  # of sums of thirds

    def _used(self) -> tuple[float, float]:
        each = [(len(run.out), run.spec.resources) for run in self.open]
        return sum(n * has.cpus_per_trial for n, has in each), sum(n * has.gpus_per_trial for n, has in each)
