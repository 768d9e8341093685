"""Choose the next trial among several runs that share one Ray."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from search_spaces import Scalar
from tausearch.execution.concurrency import concurrent_trials
from tausearch.execution.queue import RunQueue
from tausearch.execution.run import Run
from trainables.errors import InputError

CAPACITY_SECONDS = 1.0  # between two requests for the capacity of the cluster


class Dispatcher:
    """Hands out the trials of all runs. While there is room, the first run with a trial gives the next one.

    Runs are in the order of their cells, but the final run that follows a search comes behind the next search.

    `concurrent_trials` bounds the trials of a run, so that an algorithm that learns is not asked
    for all of them at once. The room that this leaves goes to the runs behind it.

    Args:
        queue: Opens runs as they are needed.
        capacity: Returns the numbers of CPUs and GPUs. Asked repeatedly, because a cluster can grow.
        max_concurrent_trials: Trials at a time, of all runs together; None for as many as fit.
        own_ray: Whether Ray is the driver's own. On a cluster, trials beyond what fits may wait for nodes that join.
    """

    def __init__(
        self,
        queue: RunQueue,
        capacity: Callable[[], tuple[float, float]],
        max_concurrent_trials: int | None = None,
        *,
        own_ray: bool = False,
    ) -> None:
        self.queue = queue
        self.capacity = capacity
        self.max_concurrent_trials = max_concurrent_trials
        self._may_wait = max_concurrent_trials is not None and not own_ray
        self.open_runs: list[Run] = []
        self._by_name: dict[str, Run] = {}
        self._all_opened = False
        self._capacity, self._capacity_read_at = (0.0, 0.0), -math.inf

    def __getitem__(self, name: str) -> Run:
        """Return the run with a name, also after it has ended."""
        return self._by_name[name]

    @property
    def finished(self) -> bool:
        """Whether all runs have ended."""
        return self._all_opened and not self.open_runs

    @property
    def active(self) -> int:
        """Number of trials that Tune runs."""
        return sum(len(run.active) for run in self.open_runs)

    def next(self) -> tuple[Run, int, dict[str, Scalar]] | None:
        """Return the next trial: its run, number and hyperparameters; None if there is none now."""
        if time.monotonic() - self._capacity_read_at > CAPACITY_SECONDS:
            self._capacity, self._capacity_read_at = self.capacity(), time.monotonic()
        position = 0
        while self._has_room() and (run := self._run_at(position)) is not None:
            found = None
            if self._takes(run):
                with self.errors_noted(run):
                    found = run.next_trial()
            if found is not None:
                return run, *found
            if run.has_ended:
                self._replace(run)
            else:
                position += 1
        return None

    @contextmanager
    def errors_noted(self, run: Run) -> Iterator[None]:
        """Have an error of a run's sampler or pruner end the run, but neither a trial under way nor another run."""
        try:
            yield
        except InputError as error:
            self.queue.stop_run(run, error)

    def _run_at(self, position: int) -> Run | None:
        """Return the run at a position, opened if it is the next; None after the last."""
        if position == len(self.open_runs) and not self._all_opened:
            run = self.queue.open_next()
            self._all_opened = run is None
            self._insert(position, run)
        return self.open_runs[position] if position < len(self.open_runs) else None

    def _replace(self, run: Run) -> None:
        """Put the follower of an ended run in its place, so that early runs finish first.

        A final run comes behind the next search, and takes the slots that the search leaves free. In its place it would
        run first, and at the end of a campaign slots would wait for the last search and for its seeds.
        """
        position, follower = self.open_runs.index(run), self.queue.next_after(run)
        del self.open_runs[position]
        if follower is not None and follower.spec.role == "seed":
            position = self._behind_next_search(position)
        self._insert(position, follower)

    def _behind_next_search(self, position: int) -> int:
        """Return the place behind the next search: behind the final runs that wait, and behind the next cell's run."""
        while position < len(self.open_runs) and self.open_runs[position].spec.role == "seed":
            position += 1
        following = self._run_at(position)
        return position if following is None or following.spec.role == "seed" else position + 1

    def _insert(self, position: int, run: Run | None) -> None:
        if run is not None:
            self.open_runs.insert(position, run)
            self._by_name[run.spec.name] = run

    def _has_room(self) -> bool:
        """Whether a trial could start, by the bound and the CPUs; else no run is opened. `_takes` looks at the GPUs."""
        if self.max_concurrent_trials is not None and self.active >= self.max_concurrent_trials:
            return False
        return self._may_wait or self.active == 0 or self._used()[0] < self._capacity[0]

    def _takes(self, run: Run) -> bool:
        """Whether there is room for another trial of a run."""
        if len(run.active) >= max(1, concurrent_trials(run.tune_trials.spec, *self._capacity)):
            return False
        if self._may_wait or self.active == 0:
            return True
        left = [has - used for has, used in zip(self._capacity, self._used(), strict=True)]
        wanted = run.spec.resources
        return left[0] >= wanted.cpus_per_trial and left[1] >= wanted.gpus_per_trial - 1e-6  # rounding

    def _used(self) -> tuple[float, float]:
        each = [(len(run.active), run.spec.resources) for run in self.open_runs]
        return sum(n * has.cpus_per_trial for n, has in each), sum(n * has.gpus_per_trial for n, has in each)
