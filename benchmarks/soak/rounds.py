"""One round: a run is begun, killed, gone on with, killed again, until it ends; then all of it is looked at."""

from __future__ import annotations

import datetime
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from benchmarks.soak.leftovers import held_locks, in_mlflow, still_there, temporary_files, twice_in_study
from benchmarks.soak.plan import ENDS_THE_DRIVER, RoundPlan, Strike
from benchmarks.soak.results import PHASES, Kill, RoundResult
from benchmarks.soak.striking import Striker
from benchmarks.soak.work import Tables, Work, cost, different, tasks_in
from tests.support.drivers.searches import kill_tree, run, started
from tests.support.drivers.services import TrackingServer

_LONGEST = 900.0  # seconds that the rest of a run may take
_MOST_ERRORS = 3  # drivers that end with an error before a round is given up


@dataclass
class Round:
    """Plays one round of what is run as `work`, whose processes take a folder for temporary files."""

    plan: RoundPlan
    work: Work
    calm: Tables  # the trials of the same run, undisturbed
    server: TrackingServer | None
    temporary: Path
    kills: list[tuple[Strike, str]] = field(default_factory=list)
    looks: list[Tables] = field(default_factory=list)  # one after each kill, and one at the end
    family: set[psutil.Process] = field(default_factory=set)
    stuck: int = 0
    errors: list[str] = field(default_factory=list)

    def play(self, seed: int, commit: str) -> RoundResult:
        """Run it to its end, whatever is killed on the way, and count what that cost."""
        start, strikes = time.monotonic(), list(self.plan.strikes)
        while not self._drive(strikes) and len(self.errors) < _MOST_ERRORS:
            continue
        self.looks.append(self.work.tables())
        return RoundResult(
            number=self.plan.number,
            seed=seed,
            kind=self.plan.kind,
            commit=commit,
            day=datetime.date.today().isoformat(),
            seconds=round(time.monotonic() - start, 1),
            kills=tuple(self._kills()),
            stuck=self.stuck + len(self.errors),
            different=different(self.looks[-1], self.calm),
            **self._left(),
        )

    def _drive(self, strikes: list[Strike]) -> bool:
        """Start a driver and strike while it lives; returns whether it came to the end of the run."""
        out = self.work.folder / f"{self.work.name}.txt"
        with started(*self.work.go_on, cwd=self.work.folder, out=out) as process:
            striker = Striker(self.work, tasks_in(self.calm), process, self.server, self.family)
            while strikes:
                strike = strikes.pop(0)
                phase = striker.wait(strike)
                if phase is None:
                    break
                if phase == PHASES[-1]:
                    strikes.clear()  # nothing is left to disturb
                gone = striker.strike(strike)
                self._note(strike, phase, process, gone)
                if strike.target in ENDS_THE_DRIVER:
                    striker.come_back()
                    return False
            code = _code(process)
            striker.come_back()
        if code != 0:
            self.errors.append(out.read_text(errors="replace")[-2000:])
        return code == 0

    def _note(self, strike: Strike, phase: str, process: subprocess.Popen[bytes], gone: bool) -> None:
        if not gone and strike.target != "raylet":
            return  # a worker that had just ended by itself
        if not gone:  # its Ray is gone and the driver does not notice
            self.stuck += 1
            kill_tree(process.pid)
        elif strike.target in ENDS_THE_DRIVER:
            process.wait(120)
        self.kills.append((strike, phase))
        self.looks.append(self.work.tables())

    def _kills(self) -> Iterator[Kill]:
        for (strike, phase), (look, later) in zip(self.kills, pairwise(self.looks), strict=True):
            yield Kill(strike.target, phase, tasks_in(look), *cost(look, later))

    def _left(self) -> dict[str, Any]:
        work, tables = self.work, self.looks[-1]
        processes = still_there(self.family)
        root = work.storage.root
        locks, files = held_locks(root), temporary_files(root, self.temporary)
        if self.plan.needs_server:
            for name in work.runs():  # the server may have been away at the end
                run("runs", "sync", name, cwd=work.folder)
        mlflow = [in_mlflow(work, f"{work.name}{name}", trials) for name, trials in tables.items()]
        studies = [twice_in_study(work, f"{work.name}{name}") for name in tables]
        return {
            "doubled": sum(doubled for doubled, _ in mlflow) + sum(studies),
            "missing": sum(missing for _, missing in mlflow),
            "processes": len(processes),
            "locks": len(locks),
            "files": len(files),
            "left": [*map(str, processes), *map(str, locks), *map(str, files), *self.errors],
        }

    def clear(self) -> None:
        """Remove what the round has left, which nobody asks for again."""
        for name in self.work.runs():
            shutil.rmtree(self.work.storage.run(name).path)
        shutil.rmtree(self.work.storage.campaigns_folder / self.work.name, ignore_errors=True)


def _code(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a driver that is left alone; -1 if it does not end."""
    try:
        return process.wait(_LONGEST)
    except subprocess.TimeoutExpired:
        return -1
