"""Six digits in three tasks of two: a benchmark on which a method runs in a fraction of a second."""

from __future__ import annotations

import dataclasses
from functools import cache

import torch
from torch import Tensor

from trainables.data import Benchmark, build_benchmark, get_source
from trainables.data.transforms.cropping import RandomShift
from trainables.data.transforms.normalisation import Normalise


@cache
def few_digits(part: str) -> tuple[Tensor, Tensor]:
    """Return twelve training images or four test images of each of six digits, and their labels."""
    images, labels = get_source("digits").load(part)  # type: ignore[arg-type]
    count = 12 if part == "train" else 4
    rows = torch.cat([(labels == c).nonzero().flatten()[:count] for c in range(6)])
    assert isinstance(images, Tensor), "they are embedded"
    return images[rows], labels[rows]


SOURCE = dataclasses.replace(
    get_source("digits"),
    class_names=tuple("012345"),
    num_tasks=3,
    epochs=2,
    batch_size=8,
    load=few_digits,
    transforms=lambda reads: (RandomShift(1), Normalise()),
)


@cache
def small_digits() -> Benchmark:
    """Return the benchmark for a final run; its evaluation images are test images."""
    return build_benchmark(SOURCE, "final")
