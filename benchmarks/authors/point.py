"""What both programs are given and what both print: one configuration of `ita-lora`, and its time."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

LR_PRE, EPOCHS_PRE = 0.03, 8

# Where theirs gets its images: from its own loader with its default number of processes, from its own loader without
# processes, or from ours.
Feed = Literal["processes", "in process", "our batches"]


@dataclass(frozen=True, kw_only=True)
class Point:
    """A configuration, on an embedded benchmark and its ViT; a validation split of the training images evaluates."""

    benchmark: str = "digits"
    threads: int = 1
    alpha: float = 50.0
    alpha_cls: float = 0.5
    alpha_cls_prior: float = 0.015
    lr: float = 0.01
    seed: int = 0

    @classmethod
    def given(cls) -> Point:
        """Read the program's first argument."""
        return cls(**json.loads(sys.argv[1]))


def report(tasks: Iterable[Callable[[], list[float]]]) -> None:
    """Run the tasks one by one, each returning its row of accuracies; print the seconds of all and the last mean."""
    start = time.perf_counter()
    row: list[float] = []
    for task in tasks:
        row = task()
    print(json.dumps({"seconds": time.perf_counter() - start, "accuracy": sum(row) / len(row)}))
