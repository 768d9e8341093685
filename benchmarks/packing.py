"""Several trials on one GPU: images per second of k processes with 1/k of its memory each, over those of one.

Each process fine-tunes `ita-lora` steps, fenced as a trial is. On a GPU ViT-B/16 with random weights at batch 128 under
bf16; where there is none there is nothing to measure.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp

from benchmarks.arithmetic import prepared, random_weights
from trainables.device import claim

SHARES = (1, 2, 4)
WARM_UP, SECONDS, STEPS = 5.0, 20.0, 10  # steps between two looks at the clock
BATCH = 128


def measure(k: int, weights: Path) -> float:
    """Return the images per second of k processes together."""
    context = mp.get_context("spawn")
    rates, barrier = context.Queue(), context.Barrier(k)
    workers = [context.Process(target=_work, args=(1 / k, weights, barrier, rates)) for _ in range(k)]
    for worker in workers:
        worker.start()
    total = sum(rates.get() for _ in workers)
    for worker in workers:
        worker.join()
    return total


def _work(share: float, weights: Path, barrier: Any, rates: Any) -> None:
    device = claim(share)
    learner, task = prepared("ita-lora", weights, device.type, BATCH, STEPS)

    def run_for(seconds: float) -> float:
        start, images = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            learner.train_task(task)
            torch.cuda.synchronize()
            images += len(task.train)
        return images / (time.perf_counter() - start)

    barrier.wait()
    run_for(WARM_UP)
    barrier.wait()
    rates.put(run_for(SECONDS))


def run() -> list[dict[str, Any]]:
    """Measure 1, 2 and 4 trials on one card."""
    if not torch.cuda.is_available():
        return [{"trials on one GPU": "none: this machine has no GPU"}]
    with random_weights() as weights:
        found = {k: measure(k, weights) for k in SHARES}
    return [
        {"trials on one GPU": k, "images per second": rate, "over one trial's": rate / found[1]}
        for k, rate in found.items()
    ]
