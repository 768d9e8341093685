"""What a precision changes in accuracy: every method on the embedded benchmarks, three seeds, on one GPU.

Each method trains with the hyperparameters that its search space starts from, on the training images of a search, and
is evaluated on the validation images. Differences to float32 are taken seed by seed. One process per CPU, all on one
GPU; what is prepared for a seed is shared, as it does not depend on the precision.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from benchmarks.gpu.repeats import begun, finished, processes_on_one_gpu
from benchmarks.performance.lines import Rows
from trainables.config import PRECISIONS, Precision
from trainables.device import claim
from trainables.errors import DivergedError
from trainables.methods import METHODS
from trainables.process import settle

BENCHMARKS, SEEDS = ("digits", "letters", "glyphs"), (0, 1, 2)
OTHERS: tuple[Precision, ...] = ("tf32", "bf16")
_FIELDS = ("benchmark", "method", "seed", "precision")


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
    options = {"seed": case.seed, "precision": case.precision, "cache": cache}
    sequence = begun(case.method, claim(share), case.benchmark, **options)
    try:
        return fmean(finished(sequence)[0])
    except DivergedError:
        return float("nan")


def run() -> list[dict[str, Any]]:
    """Measure all, several at a time; a row for each trial."""
    with tempfile.TemporaryDirectory() as cache, processes_on_one_gpu() as (pool, share):
        one = partial(accuracy, share=share, cache=Path(cache))
        running = {pool.submit(one, case): case for case in cases()}
        return [{**vars(running[done]), "accuracy": done.result()} for done in as_completed(running)]


HEADER = ("", *(f"{benchmark}, {label}" for benchmark in BENCHMARKS for label in ("fp32", "tf32", "bf16")))


def table(rows: Rows) -> Iterator[tuple[str, ...]]:
    """Yield for each method its accuracy in float32, and the differences of the other precisions, by benchmark."""
    found = _by_case(rows)
    for method in METHODS:
        cells = []
        for benchmark in BENCHMARKS:
            full = [found[Case(benchmark, method, seed, "fp32")] for seed in SEEDS]
            cells += [f"{fmean(full):.1f}", *(_shown(_differences(found, p, benchmark, method)) for p in OTHERS)]
        yield f"`{method}`", *cells


def summary(rows: Rows) -> Iterator[tuple[str, ...]]:
    """Yield for each precision and benchmark the number of pairs, their mean difference and the extremes."""
    found = _by_case(rows)
    for precision in OTHERS:
        for benchmark in BENCHMARKS:
            pairs = [each for method in METHODS for each in _differences(found, precision, benchmark, method)]
            ends = f"{min(pairs):+.1f}", f"{max(pairs):+.1f}"
            yield f"{precision}, `{benchmark}`", str(len(pairs)), _shown(pairs, 2), *ends


def _by_case(rows: Rows) -> dict[Case, float]:
    return {Case(**{key: row[key] for key in _FIELDS}): row["accuracy"] for row in rows}


def _differences(found: Mapping[Case, float], precision: Precision, benchmark: str, method: str) -> list[float]:
    """Return the accuracy of each seed minus that in float32."""
    pairs = [(Case(benchmark, method, seed, precision), Case(benchmark, method, seed, "fp32")) for seed in SEEDS]
    return [found[other] - found[full] for other, full in pairs]


def _shown(pairs: Sequence[float], digits: int = 1) -> str:
    """Return mean and standard error."""
    return f"{fmean(pairs):+.{digits}f} ± {stdev(pairs) / len(pairs) ** 0.5:.{digits}f}"
