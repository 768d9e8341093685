"""Where the time of one cold trial goes: `ita-lora` on digits and on glyphs, one thread, nothing in the cache."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.stopwatch import Stopwatch
from trainables import sequence
from trainables.backbones import Backbone
from trainables.data import build_benchmark, get_source
from trainables.methods.composable.learner import ComposableLearner
from trainables.preconsolidation import consolidation
from trainables.process import settle
from trainables.sequence import IncrementalSequence

STAGES = {
    "mixtures": (consolidation, "fit_mixture"),
    "probing": (consolidation, "linear_probe"),
    "alignment": (consolidation, "align"),
    "Fisher": (consolidation, "_curvature"),
    "head Fisher and penalties": (ComposableLearner, "_set_up_penalties"),
    "fine-tuning": (ComposableLearner, "train_task"),
    "evaluation": (sequence, "accuracies"),
}
HYPERPARAMETERS = {"alpha": 50, "alpha_cls": 1, "alpha_cls_prior": 0.03, "lr": 0.01, "lr_pre": 0.03, "epochs_pre": 8}


def measure(benchmark: str) -> list[dict[str, Any]]:
    """Run one trial with a stopwatch around each stage."""
    watch = Stopwatch(time.perf_counter)
    built = build_benchmark(get_source(benchmark), "search")
    trial = IncrementalSequence(built, "ita-lora", HYPERPARAMETERS, backbone=Backbone())
    with watch.watching((*function, stage) for stage, function in STAGES.items()):
        start = time.perf_counter()
        while not trial.finished:
            trial.run_next_task()
        total = time.perf_counter() - start
    seconds = {**watch.seconds, "rest": total - sum(watch.seconds.values())}
    return [
        {"benchmark": benchmark, "stage": stage, "seconds": seconds[stage], "percent": 100 * seconds[stage] / total}
        for stage in (*STAGES, "rest")
    ]


def run() -> list[dict[str, Any]]:
    """Measure both embedded benchmarks."""
    settle(1)
    return [row for benchmark in ("digits", "glyphs") for row in measure(benchmark)]
