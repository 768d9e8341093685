"""Several trials on one GPU: images per second of k processes with 1/k of its memory each, over those of one.

Each process fine-tunes `ita-lora` steps, fenced as a trial is: on the embedded ViT with the batches of its benchmarks,
and on ViT-B/16 with random weights at two batch sizes.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp

from benchmarks.arithmetic import NAME, prepared, random_weights
from trainables.backbones import EMBEDDED, Backbone
from trainables.config import Precision
from trainables.data import Task
from trainables.device import claim
from trainables.process import settle

SHARES = (1, 2, 4, 8)
WARM_UP, SECONDS, STEPS = 2.0, 8.0, 10  # steps between two looks at the clock
PATIENCE = 120.0  # seconds until a process has warmed up and measured


@dataclass(frozen=True)
class Case:
    """What each of the processes trains with: backbone, precision and images per step."""

    backbone: str
    precision: Precision
    batch: int


CASES = (
    Case(EMBEDDED, "fp32", 32),
    Case(NAME, "fp32", 128),
    Case(NAME, "bf16", 128),
)


def measure(case: Case, k: int, weights: Path) -> float:
    """Return the images per second of k processes together; 0 if the memory of one is too little."""
    context = mp.get_context("spawn")
    rates, barrier = context.Queue(), context.Barrier(k)
    workers = [context.Process(target=_work, args=(case, 1 / k, weights, barrier, rates)) for _ in range(k)]
    for worker in workers:
        worker.start()
    found = [rates.get(timeout=PATIENCE) for _ in workers]
    for worker in workers:
        worker.join()
    return sum(found) if all(found) else 0.0


def _work(case: Case, share: float, weights: Path, barrier: Any, rates: Any) -> None:
    settle(1)
    device = claim(share)
    backbone = Backbone() if case.backbone == EMBEDDED else Backbone(case.backbone, weights)
    try:
        learner, task = prepared("ita-lora", backbone, device.type, case.precision, case.batch, STEPS)
        images_per_second(learner, task, WARM_UP)
        barrier.wait(PATIENCE)
        rates.put(images_per_second(learner, task, SECONDS))
    except (torch.OutOfMemoryError, threading.BrokenBarrierError):  # the latter where another ran out of memory
        barrier.abort()
        rates.put(0.0)


def images_per_second(learner: Any, task: Task, seconds: float) -> float:
    """Train for so long."""
    start, images = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        learner.train_task(task)
        torch.cuda.synchronize()
        images += len(task.train)
    return images / (time.perf_counter() - start)


def run() -> list[dict[str, Any]]:
    """Measure 1, 2, 4 and 8 processes on one card."""
    rows = []
    with random_weights() as weights:
        for case in CASES:
            found = {k: measure(case, k, weights) for k in SHARES}
            one = found[1]
            rows += [
                {
                    "backbone": case.backbone,
                    "precision": case.precision,
                    "batch": case.batch,
                    "trials on one GPU": k,
                    "images per second": rate or "does not fit",
                    "over one trial's": rate / one if rate and one else "",
                }
                for k, rate in found.items()
            ]
    return rows
