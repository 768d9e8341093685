"""Ours against the authors' public code: the same weights, images, epochs and batch size, one after the other.

A trial counts from its first task to its last evaluation and alternates between the two; 16 points are a grid search of
ours from command to prompt, and 16 processes of theirs one after another from start to end. Theirs reads images in the
ways of `point.Feed`. docs/explanation/parity.md compares what the two find.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from benchmarks.authors.checkout import make_runnable
from benchmarks.authors.point import EPOCHS_PRE, LR_PRE, Feed, Point
from benchmarks.authors.processes import python
from search_spaces.reading import read_space_file

ITS_OWN: tuple[Feed, ...] = ("processes", "in process")
TRIALS: list[tuple[Point, int, tuple[Feed, ...]]] = [  # how often, and how theirs is fed
    (Point(), 3, get_args(Feed)),
    (Point(threads=2), 3, get_args(Feed)),
    (Point(benchmark="glyphs"), 1, ("in process",)),
]
GRID = Path(__file__).with_name("grid.yaml")
CHECKOUT = "TAUSEARCH_MAMMOTH"  # environment variable


def _trial(module: str, point: Point, *arguments: str) -> dict[str, float]:
    program = f"benchmarks.authors.{module}"
    last = python("-m", program, json.dumps(asdict(point)), *arguments, threads=point.threads).splitlines()[-1]
    found: dict[str, float] = json.loads(last)
    return found


def _row(what: str, limit: str, feed: Feed, ours: float, theirs: float, accuracies: str) -> dict[str, Any]:
    return {
        "what": what,
        "theirs reads": feed,
        "seconds, ours": ours,
        "theirs": theirs,
        "ratio": ours / theirs,
        "limit": limit,
        "final accuracy, ours and theirs": accuracies,
    }


def one_trial(point: Point, repetitions: int, feeds: Sequence[Feed], mammoth: str) -> list[dict[str, Any]]:
    """Alternate between the programs and take the median of each; one seed finds the same accuracy every time."""
    rounds = [
        [_trial("ours", point), *(_trial("theirs", point, mammoth, feed) for feed in feeds)] for _ in range(repetitions)
    ]
    ours, *theirs = (statistics.median(each["seconds"] for each in program) for program in zip(*rounds, strict=True))
    found, *others = (f"{each['accuracy']:.1f} %" for each in rounds[-1])
    threads = {1: "one thread", 2: "two threads"}[point.threads]
    what = f"one trial on {point.benchmark}, {threads} each, empty cache"
    return [
        _row(what, "1/3", feed, ours, seconds, f"{found} and {other}")
        for feed, seconds, other in zip(feeds, theirs, others, strict=True)
    ]


def grid(mammoth: str) -> list[dict[str, Any]]:
    """Search the grid with ours, then run its points with theirs."""
    ours = _our_grid()
    what = "16 points: a search with two slots, from command to prompt; theirs one process after another on one thread"
    return [_row(what, "1/8", feed, ours, _their_grid(feed, mammoth), "") for feed in ITS_OWN]


def _our_grid() -> float:
    with tempfile.TemporaryDirectory() as folder:
        search = ["-m", "tausearch", "search", "digits", "ita-lora", "--algorithm", "grid", "--space", str(GRID)]
        for setting in (f"lr_pre={LR_PRE}", f"epochs_pre={EPOCHS_PRE}", "formulation=official"):
            search += ["--set", setting]
        start = time.perf_counter()
        python(*search, "--storage", folder, threads=1)
        return time.perf_counter() - start


def _their_grid(feed: Feed, mammoth: str) -> float:
    values = {name: each.grid for name, each in read_space_file(GRID).space.items()}
    start = time.perf_counter()
    for chosen in itertools.product(*values.values()):
        _trial("theirs", Point(**dict[str, Any](zip(values, chosen, strict=True))), mammoth, feed)
    return time.perf_counter() - start


def run() -> list[dict[str, Any]]:
    """Compare trials and a grid."""
    checkout = os.environ.get(CHECKOUT)
    if not checkout:
        return [{"against the authors' code": f"none: {CHECKOUT} names no checkout of it"}]
    with tempfile.TemporaryDirectory() as folder:
        mammoth = str(make_runnable(Path(checkout), Path(folder, "mammoth")))
        return [row for point, times, feeds in TRIALS for row in one_trial(point, times, feeds, mammoth)] + grid(
            mammoth
        )
