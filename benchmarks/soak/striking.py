"""Kill something at its moment, and say when that was."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from benchmarks.soak.leftovers import family
from benchmarks.soak.plan import Strike
from benchmarks.soak.results import PHASES
from benchmarks.soak.work import Work
from tests.support.drivers.searches import kill_tree, train_workers
from tests.support.drivers.services import TrackingServer

_LONGEST = 600.0  # seconds that anything may take to come to its moment
_OUTAGE = 5.0  # seconds for which a tracking server is away
_AFTER_RAYLET = 180.0  # seconds in which a driver must notice that its Ray is gone


@dataclass
class Striker:
    """Kills what a strike names while one driver lives, and adds the processes below it to `family`."""

    work: Work
    total: int  # tasks of the work
    process: subprocess.Popen[bytes]
    server: TrackingServer | None
    family: set[psutil.Process]
    outages: list[threading.Timer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.before = self.work.tasks()

    def wait(self, strike: Strike) -> str | None:
        """Wait for the moment of a strike; returns its phase, or None if the driver ended before."""
        if strike.share is not None:
            wanted = max(1, round(strike.share * self.total))
            self._until(lambda: self.work.is_driven and self.work.tasks() >= wanted)
        time.sleep(strike.delay)
        if strike.target == "worker":
            self._until(lambda: bool(self._workers()) or self.work.tasks() >= self.total)
        if strike.target == "raylet":
            self._until(lambda: bool(self._raylets()))
        if self.process.poll() is not None:
            return None
        self.family |= family(self.process.pid)
        return self._phase()

    def strike(self, strike: Strike) -> bool:
        """Kill it; returns whether it was there, and the driver has ended by itself if it must."""
        match strike.target:
            case "driver":
                self.process.kill()
            case "all processes":
                kill_tree(self.process.pid)
            case "worker":
                return _kill(self._workers())
            case "raylet":
                return _kill(self._raylets()) and self._ended()
            case "tracking server":
                self._take_server_away()
        return True

    def _phase(self) -> str:
        tasks = self.work.tasks()
        if tasks == 0:
            return PHASES[0]
        if tasks >= self.total:
            return PHASES[3]
        return PHASES[1] if tasks == self.before else PHASES[2]

    def _until(self, condition: Callable[[], bool]) -> bool:
        """Wait for a condition as long as the driver lives; returns whether it came."""
        deadline = time.monotonic() + _LONGEST
        while self.process.poll() is None and time.monotonic() < deadline:
            if condition():
                return True
            time.sleep(0.2)
        return False

    def _workers(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return train_workers(self.process.pid)
        return []

    def _raylets(self) -> list[psutil.Process]:
        found = []
        for child in family(self.process.pid):
            with suppress(psutil.NoSuchProcess):
                found += [child] if child.name() == "raylet" else []
        return found

    def _ended(self) -> bool:
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_AFTER_RAYLET)
            return True
        return False

    def _take_server_away(self) -> None:
        assert self.server is not None
        self.come_back()
        self.server.signal(signal.SIGKILL)
        self.outages.append(threading.Timer(_OUTAGE, self.server.start))
        self.outages[-1].start()

    def come_back(self) -> None:
        """Wait until the server is there again."""
        while self.outages:
            self.outages.pop().join()
            assert self.server is not None, "only a server is taken away for a while"
            self.server.start_again()


def _kill(processes: list[psutil.Process]) -> bool:
    """Kill the first of some processes; returns whether there was one."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
            return True
    return False
