"""Compare the Fisher of 8 backward passes with the exact one at 100 classes: time and relative Frobenius error.

The embedded ViT with three classifiers of 100 classes on 1,000 drawn characters: one that is sure, one that is not, and
one between; both alternate in one run.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from torch import Tensor

from benchmarks.performance.lines import Line, column
from trainables.backbones import Backbone, tuned_layers
from trainables.curvature import DiagonalCurvature
from trainables.data import build_benchmark, get_source
from trainables.process import settle

EXAMPLES, CLASSES, PASSES, REPEATS = 1000, 100, 8, 3
LINES = (
    Line(
        what="Fisher in 8 passes, time / exact (mean largest probability)",
        values=column("time / exact", "mean largest probability"),
        shown=".3f",
        floor=f"{PASSES / (CLASSES - 1):.3f} (a)",
    ),
    Line(
        what="its relative error, Frobenius norm over all weights",
        values=column("error in percent", "mean largest probability"),
        unit=" %",
        shown=".3g",
        floor="0",
    ),
)


def measure(scale: float, images: Tensor) -> dict[str, Any]:
    """Return time ratio and error for one classifier, normal with standard deviation `scale`."""
    generator = torch.Generator().manual_seed(0)
    model = Backbone().load()
    head = (scale * torch.randn(CLASSES, model.num_features, generator=generator), torch.zeros(CLASSES))

    def fisher(passes: int | None) -> tuple[float, dict[str, Tensor]]:
        start = time.perf_counter()
        found, _ = DiagonalCurvature.estimate(
            model, tuned_layers(model), head, images.split(64), passes=passes, generator=generator
        )
        return time.perf_counter() - start, found.values

    ratios, errors = [], []
    for _ in range(REPEATS):
        (few, approximate), (many, exact) = fisher(PASSES), fisher(None)
        ratios.append(few / many)
        wrong = sum(float((approximate[name] - exact[name]).square().sum()) for name in exact)
        errors.append((wrong / sum(float(value.square().sum()) for value in exact.values())) ** 0.5)
    with torch.no_grad():
        sure = float(torch.nn.functional.linear(model(images), *head).softmax(1).amax(1).mean())
    return {
        "mean largest probability": sure,
        "passes": PASSES,
        "time / exact": statistics.median(ratios),
        "error in percent": 100 * statistics.median(errors),
    }


def run() -> list[dict[str, Any]]:
    """Measure peaked, middling and flat predictions."""
    settle(1)
    merged = build_benchmark(get_source("glyphs"), "search").merged()
    generator = torch.Generator().manual_seed(0)
    images = next(merged.train.batches(EXAMPLES, generator, shuffle=True)).x
    return [measure(scale, images) for scale in (2.0, 0.3, 0.01)]
