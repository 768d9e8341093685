"""Sixteen processes that want the same entries of the cache at once: how often each is computed, what waiting costs.

Computing an entry takes a second without CPU time, so that what is left is the cache's own: asking for locks, and
checking the 10 MB of each entry. Once more with locks as of a file system in a network: each call takes 20 ms longer.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import tempfile
import time
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.performance.lines import Line, column
from trainables.preconsolidation.cache import Cache, digest

PROCESSES, ENTRIES, SECONDS = 16, 5, 1.0
NUMBERS = 2_500_000  # of an entry: 10 MB
LOCKS = {"local": 0.0, "20 ms away": 0.02}  # kind to the seconds that a call of a lock takes longer

LINES = (
    Line(
        what=f"entries computed by {PROCESSES} processes that want the same {ENTRIES} at once",
        values=column("computed", "locks"),
        shown=".0f",
        at_most=ENTRIES,
        floor=str(ENTRIES),
    ),
    Line(
        what=f"what they wait for longer than the {ENTRIES} s of computing",
        values=column("seconds lost", "locks"),
        unit=" s",
    ),
    Line(
        what="CPU time of such a process in each second, reading the entries with it",
        values=column("CPU ms a second", "locks"),
        unit=" ms",
        shown=".1f",
    ),
)


def run() -> list[dict[str, Any]]:
    """Measure one round of all processes with each kind of locks."""
    return [{"locks": kind, **_round(longer)} for kind, longer in LOCKS.items()]


def _round(longer: float) -> dict[str, Any]:
    forked = multiprocessing.get_context("fork")  # torch is imported once
    with tempfile.TemporaryDirectory() as folder:
        ready, results = forked.Barrier(PROCESSES), forked.SimpleQueue()
        processes = [
            forked.Process(target=_want, args=(Path(folder), longer, ready, results)) for _ in range(PROCESSES)
        ]
        for process in processes:
            process.start()
        told = [results.get() for _ in processes]
        for process in processes:
            process.join()
    wall, cpu = max(each["seconds"] for each in told), sum(each["CPU"] for each in told)
    waited = sum(each["seconds"] - SECONDS * each["computed"] for each in told)
    return {
        "processes": PROCESSES,
        "computed": sum(each["computed"] for each in told),
        "seconds lost": wall - ENTRIES * SECONDS,
        "CPU ms a second": 1000 * cpu / waited,
    }


def _want(folder: Path, longer: float, ready: Barrier, results: Any) -> None:
    """Get all entries in order, as a trial does."""
    torch.set_num_threads(1)
    flock = fcntl.flock

    def far(file: Any, operation: int) -> None:
        time.sleep(longer)
        flock(file, operation)

    fcntl.flock = far  # of this process alone; the cache and `filelock` call it
    cache, computed = Cache(folder), list[int]()

    def compute(number: int) -> dict[str, Tensor]:
        computed.append(number)
        time.sleep(SECONDS)
        return {"fisher": torch.full((NUMBERS,), float(number))}

    ready.wait()
    start, before = time.perf_counter(), time.process_time()
    for number in range(ENTRIES):
        entry = cache.get(digest({"entry": number}), partial(compute, number))
        assert entry["fisher"][-1] == number
    results.put(
        {
            "computed": len(computed),
            "seconds": time.perf_counter() - start,
            "CPU": time.process_time() - before,
        }
    )
