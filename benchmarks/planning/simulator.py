"""An event simulation of a campaign: which slot runs which task when.

It has the platform's rules (`execution.dispatcher`). A free slot takes the next trial of the first run that has one.
An algorithm that learns runs a quarter of its trials at a time. When a search has ended, the cell's final run comes
behind the next search.
Every finished task passes through one driver, which takes a fixed time for each. A GPU that fails loses the task that
runs on it, and its trial goes on elsewhere from its last finished task.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random


@dataclass(frozen=True)
class Work:
    """A cell of a campaign: its search, then its final run.

    Attributes:
        tasks: Seconds of each task of a trial, alone on its slot.
        trials: Trials of the search; 0 for none.
        seeds: Trials of the final run.
        at_once: Trials of the search at a time.
        stops: Task (from 1) to the share of running trials that an early-stopping rule ends after it.
    """

    tasks: tuple[float, ...]
    trials: int
    seeds: int
    at_once: int
    stops: tuple[tuple[int, float], ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds of all trials, one after the other, where none is stopped."""
        return (self.trials + self.seeds) * sum(self.tasks)

    @property
    def chain(self) -> float:
        """Seconds of the longest chain: rounds of its search, then the final run at once."""
        rounds = -(-self.trials // self.at_once) if self.trials else 0
        return (rounds + (1 if self.seeds else 0)) * sum(self.tasks)


@dataclass(frozen=True)
class Machine:
    """What a campaign runs on."""

    slots: int  # trials at a time
    start: float = 0.0  # seconds from a free slot to the first task of a new trial in a process that is there
    driver: float = 0.0  # seconds that the driver takes for each finished task
    failures: float = 0.0  # failures of a slot, per hour
    repair: float = 600.0  # seconds until a slot that failed takes a trial again


@dataclass(frozen=True)
class Outcome:
    """How a simulated campaign went."""

    seconds: float  # from the first trial to the end of the last
    computed: float  # seconds of tasks that were finished
    lost: float  # seconds of tasks that a failure ended
    tail: float  # seconds at the end in which fewer than 90 % of the slots were busy
    driver: float  # share of the time in which the driver was busy
    slots: int

    @property
    def utilisation(self) -> float:
        """Share of slots x time that finished tasks took."""
        return self.computed / (self.slots * self.seconds)


@dataclass
class _Trial:
    cell: int
    searching: bool
    done: int = 0


@dataclass
class _Cell:
    work: Work
    asked: int = 0  # trials of the search that have begun
    running: int = 0
    ended: int = 0
    seeds: int = 0  # seeds that have begun
    waiting: list[_Trial] = field(default_factory=list)  # that lost their slot

    @property
    def searching(self) -> bool:
        return self.ended < self.work.trials

    def next(self, number: int) -> _Trial | None:
        if self.waiting:
            return self.waiting.pop()
        if self.asked < self.work.trials and self.running < self.work.at_once:
            self.asked, self.running = self.asked + 1, self.running + 1
            return _Trial(number, searching=True)
        if not self.searching and self.seeds < self.work.seeds:
            self.seeds += 1
            return _Trial(number, searching=False)
        return None


def lower_bound(cells: Sequence[Work], slots: int) -> float:
    """Return the seconds that no schedule can beat: all work over all slots, or the longest chain."""
    return max(sum(each.seconds for each in cells) / slots, max(each.chain for each in cells))


def simulate(cells: Sequence[Work], machine: Machine, jitter: float = 0.05) -> Outcome:
    """Run a campaign, with its cells in the order of the file, event by event.

    `jitter` is the standard deviation of a task's duration as a share of it.
    """
    return _Simulation(cells, machine, Random(0), jitter).run()


class _Simulation:
    def __init__(self, cells: Sequence[Work], machine: Machine, random: Random, jitter: float) -> None:
        self.cells = [_Cell(work) for work in cells]
        self.order = list(range(len(cells)))  # in which cells are asked for trials
        self.machine, self.random, self.jitter = machine, random, jitter
        self.free = list(range(machine.slots))
        self.events: list[tuple[float, int, int, _Trial | None, float, bool]] = []
        self.count = 0
        self.driver_free = self.driver_busy = self.computed = self.lost = 0.0
        self.busy: list[tuple[float, int]] = []  # time, slots that are busy from then on

    def run(self) -> Outcome:
        now = end = 0.0
        self._fill(now)
        while self.events:
            now, _, slot, trial, seconds, failed = heapq.heappop(self.events)
            if trial is None:  # repaired
                self.free.append(slot)
            elif failed:
                self.lost += seconds
                self.cells[trial.cell].waiting.append(trial)
                self._push(now + self.machine.repair, slot, None, 0.0, False)
            else:
                end = now  # a repair may end later
                self.computed += seconds
                self._task_done(now, slot, trial)
            self._fill(now)
        return Outcome(end, self.computed, self.lost, self._tail(end), self.driver_busy / end, self.machine.slots)

    def _task_done(self, now: float, slot: int, trial: _Trial) -> None:
        told = max(now, self.driver_free) + self.machine.driver
        self.driver_free, self.driver_busy = told, self.driver_busy + self.machine.driver
        cell, trial.done = self.cells[trial.cell], trial.done + 1
        stop = dict(cell.work.stops).get(trial.done, 0.0) if trial.searching else 0.0
        if trial.done < len(cell.work.tasks) and self.random.random() >= stop:
            self._begin(told, slot, trial, 0.0)
            return
        if trial.searching:
            cell.running, cell.ended = cell.running - 1, cell.ended + 1
            if not cell.searching:
                self._put_back(trial.cell)
        self.free.append(slot)

    def _fill(self, now: float) -> None:
        """Give free slots to the first cells that have a trial."""
        position = 0
        while self.free and position < len(self.order):
            number = self.order[position]
            trial = self.cells[number].next(number)
            if trial is None:
                position += 1
            else:
                self._begin(now, self.free.pop(), trial, self.machine.start)
        self.busy.append((now, self.machine.slots - len(self.free)))

    def _put_back(self, number: int) -> None:
        """Put a cell whose search has ended behind the next one that is searching."""
        position = self.order.index(number)
        behind = (at for at, each in enumerate(self.order[position:], position) if self.cells[each].searching)
        self.order.insert(next(behind, len(self.order)) + 1, number)
        del self.order[position]

    def _begin(self, now: float, slot: int, trial: _Trial, start: float) -> None:
        usual = self.cells[trial.cell].work.tasks[trial.done]
        seconds = max(0.1 * usual, self.random.gauss(usual, self.jitter * usual))
        rate = self.machine.failures / 3600
        until = self.random.expovariate(rate) if rate else float("inf")
        failed = until < start + seconds
        self._push(now + (until if failed else start + seconds), slot, trial, until if failed else seconds, failed)

    def _push(self, time: float, slot: int, trial: _Trial | None, seconds: float, failed: bool) -> None:
        self.count += 1  # breaks ties by order
        heapq.heappush(self.events, (time, self.count, slot, trial, seconds, failed))

    def _tail(self, end: float) -> float:
        last = max((time for time, busy in self.busy if busy >= 0.9 * self.machine.slots), default=0.0)
        return end - last
