"""What a precision changes in accuracy: every method on the embedded benchmarks, three seeds, on one GPU.

Each method trains with the hyperparameters that its search space starts from, on the training images of a search, and
is evaluated on the validation images. Differences to float32 are taken seed by seed. One process per CPU, all on one
GPU; what is prepared for a seed is shared, as it does not depend on the precision.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

from benchmarks.gpu import NO_GPU
from search_spaces import load_space
from trainables.backbones import Backbone
from trainables.config import PRECISIONS, Precision
from trainables.data import build_benchmark, get_source
from trainables.device import claim
from trainables.errors import DivergedError
from trainables.methods import METHODS
from trainables.process import settle
from trainables.sequence import IncrementalSequence

BENCHMARKS, SEEDS = ("digits", "letters", "glyphs"), (0, 1, 2)
MOST_PROCESSES = 16


@dataclass(frozen=True)
class Case:
    """One trial."""

    benchmark: str
    method: str
    seed: int
    precision: Precision


def cases() -> list[Case]:
    """Return all trials, benchmark by benchmark; those that share what is prepared lie apart."""
    return [
        Case(benchmark, method, seed, precision)
        for benchmark in BENCHMARKS
        for precision in PRECISIONS
        for seed in SEEDS
        for method in METHODS
    ]


def accuracy(case: Case, share: float, cache: Path) -> float:
    """Run a trial; return the mean accuracy over the tasks after the last one, percent, or NaN if it diverged."""
    settle(1)
    device = claim(share)
    space = load_space(case.method, case.benchmark)
    benchmark = build_benchmark(get_source(case.benchmark), "search")
    sequence = IncrementalSequence(
        benchmark,
        case.method,
        {**space.fixed, **space.start},
        backbone=Backbone(),
        seed=case.seed,
        device=device,
        precision=case.precision,
        cache=cache,
    )
    try:
        while not sequence.finished:
            sequence.run_next_task()
    except DivergedError:
        return float("nan")
    return fmean(sequence.accuracies[-1])


def run() -> list[dict[str, Any]]:
    """Measure all, several at a time; a row for each trial."""
    return list(measured()) if torch.cuda.is_available() else NO_GPU


def measured() -> Iterator[dict[str, Any]]:
    """Yield the row of each trial as it ends."""
    processes = min(MOST_PROCESSES, len(os.sched_getaffinity(0)))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    context = mp.get_context("spawn")
    with tempfile.TemporaryDirectory() as cache, ProcessPoolExecutor(processes, mp_context=context) as pool:
        one = partial(accuracy, share=1 / processes, cache=Path(cache))
        running = {pool.submit(one, case): case for case in cases()}
        for done in as_completed(running):
            yield {**vars(running[done]), "accuracy": done.result()}


def table(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield for each method its accuracy in float32, and the differences of the other precisions, by benchmark."""
    found = {(row["benchmark"], row["method"], row["seed"], row["precision"]): row["accuracy"] for row in rows}
    for method in METHODS:
        cells = []
        for benchmark in BENCHMARKS:
            by = {p: [found[benchmark, method, seed, p] for seed in SEEDS] for p in PRECISIONS}
            cells += [f"{fmean(by['fp32']):.1f}", *(_difference(by[p], by["fp32"]) for p in PRECISIONS[1:])]
        yield f"`{method}`", *cells


def _difference(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Return mean and standard error of the paired differences."""
    pairs = [a - b for a, b in zip(ours, theirs, strict=True)]
    return f"{fmean(pairs):+.1f} ± {stdev(pairs) / len(pairs) ** 0.5:.1f}"
