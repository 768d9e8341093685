"""The parts of a dataset, the tasks of its classes, and splits of images into two by class."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from trainables.randomness import make_generator

SplitName = Literal["train", "test"]  # only a final run may read the test part
SPLIT_NAMES: tuple[SplitName, ...] = ("train", "test")
VALIDATION_SHARE = 0.1
TEST_SHARE = 0.2  # of a dataset without a split of its own
TEST_SEED = 0  # fixed: the test split is part of the benchmark, not of an experiment


def task_sizes(num_classes: int, num_tasks: int) -> list[int]:
    """Return the classes of each task, floor(C / T) and one more for the first C mod T; a ValueError for a wrong T."""
    if not 1 <= num_tasks <= num_classes:
        raise ValueError(f"the number of tasks must be between 1 and {num_classes=}, got {num_tasks=}")
    smallest, larger = divmod(num_classes, num_tasks)
    return [smallest + (task < larger) for task in range(num_tasks)]


def stratified_split(labels: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Hold out ceil(share * n_c) examples of each class c, with 0 < share < 1; see `split_per_class`."""
    return split_per_class(labels, lambda count: math.ceil(share * count), seed)


def split_per_class(labels: Tensor, held_out: Callable[[int], int], seed: int) -> tuple[Tensor, Tensor]:
    """Return the ascending row numbers `(kept, held_out)` of labels, int64 `(n,)`.

    `held_out` returns how many of a class's examples to hold out. Each class draws from its own generator, independent
    of the other classes.
    """
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique().tolist():
        rows = (labels == label).nonzero().flatten()
        order = torch.randperm(len(rows), generator=make_generator(seed, "split", label))
        chosen[rows[order[: held_out(len(rows))]]] = True
    return (~chosen).nonzero().flatten(), chosen.nonzero().flatten()
