"""Measure how far the embedded benchmarks are from the pre-training: accuracy of theta_0 and of fine-tuning.

Test accuracy of class-incremental final runs, the mean over three seeds, and its standard deviation. "theta_0" is
`ita-lora` with a learning rate next to nothing and no regularisation: the classifiers of pre-consolidation, probed and
aligned task by task, on the features of theta_0. "joint" is `joint`, fine-tuned on all tasks at once, at the values at
which a search starts.
"""

from __future__ import annotations

import statistics
from typing import Any

from search_spaces import load_space
from trainables.backbones import Backbone
from trainables.data import BENCHMARKS, Benchmark, build_benchmark, get_source
from trainables.metrics import TEST
from trainables.process import settle
from trainables.sequence import IncrementalSequence

NO_LEARNING = 1e-12  # a learning rate must be above 0; tau stays below it by orders of magnitude
SEEDS = (0, 1, 2)


def theta_0_accuracy(name: str, seed: int = 0) -> float:
    """Return the test accuracy, in percent, of the incremental classifier on the features of theta_0."""
    return _accuracy(name, "ita-lora", {"lr": NO_LEARNING, "regularise": "none"}, seed)


def joint_accuracy(name: str, seed: int = 0) -> float:
    """Return the test accuracy, in percent, of joint fine-tuning."""
    return _accuracy(name, "joint", {}, seed)


def _accuracy(name: str, method: str, overrides: dict[str, float | str], seed: int) -> float:
    benchmark: Benchmark = build_benchmark(get_source(name), "final")
    space = load_space(method, name)
    hyperparameters = {**space.fixed, **space.start, **overrides}
    sequence = IncrementalSequence(benchmark, method, hyperparameters, backbone=Backbone(), seed=seed)
    while not sequence.finished:
        row = sequence.run_next_task()
    sequence.close()
    return row[TEST.final_accuracy]


def run() -> list[dict[str, Any]]:
    """Measure every embedded benchmark."""
    settle(1)
    rows = []
    for name in BENCHMARKS:
        row: dict[str, Any] = {"benchmark": name}
        for what, accuracy in (("theta_0", theta_0_accuracy), ("joint", joint_accuracy)):
            values = [accuracy(name, seed) for seed in SEEDS]
            row |= {f"{what}, percent": statistics.mean(values), f"{what}, deviation": statistics.stdev(values)}
        rows.append(row)
    return rows
