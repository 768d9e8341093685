"""What trials share: 16 trials of `ita-lora` on digits, with the cache and without it.

They differ in alpha, alpha_cls, prior and lr and run one after the other in one process. CPU seconds of the first over
the second, and how many entries were computed.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.performance.lines import Line, column
from trainables.backbones import Backbone
from trainables.data import Benchmark, build_benchmark, get_source
from trainables.metrics import VALIDATION
from trainables.preconsolidation.cache import Cache
from trainables.process import settle
from trainables.sequence import IncrementalSequence

GRID = {"alpha": (0.7, 50.0), "alpha_cls": (0.1, 1.0), "alpha_cls_prior": (0.003, 0.03), "lr": (0.003, 0.01)}
SHARED = {"lr_pre": 0.03, "epochs_pre": 8}
LINES = (
    Line(
        what="CPU time of 16 `ita-lora` trials on digits, with the cache / without",
        values=column("ratio"),
        shown=".3f",
        at_most=0.5,
    ),
)


def _run_all(benchmark: Benchmark, cache: Path | None) -> tuple[float, list[float]]:
    """Run the 16 trials; returns CPU seconds and final accuracies."""
    start, accuracies = time.process_time(), []
    for values in itertools.product(*GRID.values()):
        hyperparameters = {**dict(zip(GRID, values, strict=True)), **SHARED}
        sequence = IncrementalSequence(benchmark, "ita-lora", hyperparameters, backbone=Backbone(), cache=cache)
        while not sequence.finished:
            row = sequence.run_next_task()
        sequence.close()
        accuracies.append(row[VALIDATION.final_accuracy])
    return time.process_time() - start, accuracies


def run() -> list[dict[str, Any]]:
    """Measure with and without; the numbers found must be the same."""
    settle(1)
    benchmark = build_benchmark(get_source("digits"), "search")
    with tempfile.TemporaryDirectory() as folder:
        shared, with_cache = _run_all(benchmark, Path(folder))
        entries = len(Cache(Path(folder)).entries())
    alone, without = _run_all(benchmark, None)
    assert with_cache == without, "the cache changed a result"
    return [
        {
            "trials": len(with_cache),
            "CPU seconds, shared": shared,
            "CPU seconds, alone": alone,
            "ratio": shared / alone,
            "entries computed": entries,
            "tasks": len(benchmark.tasks),
        }
    ]
