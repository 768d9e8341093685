"""What every method takes of a GPU on ViT-B/16: memory, and how fast it trains, in float32 and under bf16 autocast.

Random weights and drawn noise, so that accuracy means nothing; the paper's batch size. Each method runs as many tasks
as its memory takes to peak, two at least. Speed is of the training of the last one.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.arithmetic import NAME, random_weights
from search_spaces import load_space
from trainables.backbones import Backbone
from trainables.config import Precision
from trainables.data import Benchmark, BenchmarkSource, Normalise, build_benchmark
from trainables.device import claim, peak_bytes, release
from trainables.methods import METHODS
from trainables.process import settle
from trainables.sequence import IncrementalSequence

CLASSES, TASKS, PER_CLASS = 48, 6, {"train": 32, "test": 2}
BATCH, EPOCHS = 128, 2
PRECISIONS: tuple[Precision, ...] = ("fp32", "bf16")
STAGES = {"seconds/preconsolidation": "before training, s", "seconds/training": "training, s"}
GIB = 2**30


def _noise(part: str) -> tuple[Tensor, Tensor]:
    labels = torch.arange(CLASSES).repeat_interleave(PER_CLASS[part])
    generator = torch.Generator().manual_seed(len(labels))
    return torch.randint(0, 256, (len(labels), 3, 224, 224), dtype=torch.uint8, generator=generator), labels


SOURCE = BenchmarkSource(
    name="noise",
    class_names=tuple(f"noise {c}" for c in range(CLASSES)),
    num_tasks=TASKS,
    epochs=EPOCHS,
    batch_size=BATCH,
    backbone=NAME,
    load=_noise,
    transforms=lambda reads: (Normalise(), Normalise()),
)


def measure(method: str, benchmark: Benchmark, weights: Path, precision: Precision) -> dict[str, Any]:
    """Run one method; a method that fails says why in its row."""
    space = load_space(method, benchmark.spec.name)
    hyperparameters = {**space.fixed, **space.start}
    row: dict[str, Any] = {"method": method, "precision": precision}
    release()
    start = time.perf_counter()
    try:
        sequence = IncrementalSequence(
            benchmark, method, hyperparameters, backbone=Backbone(NAME, weights), device="cuda", precision=precision
        )
        rate, last = _run(sequence)
    except (RuntimeError, ValueError) as error:  # running out of memory is one of the former
        return row | {"images/s": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    free, total = torch.cuda.mem_get_info()
    outside = total - free - torch.cuda.memory_reserved()  # if nobody else is on the card
    return row | {
        "images/s": rate,
        **{text: last[stage] for stage, text in STAGES.items()},
        "peak in use, GiB": torch.cuda.max_memory_allocated() / GIB,
        "peak, GiB": peak_bytes() / GIB,
        "beside torch, GiB": outside / GIB,
        "tasks": sequence.tasks_done,
        "seconds": time.perf_counter() - start,
    }


def _run(sequence: IncrementalSequence) -> tuple[float, dict[str, float]]:
    """Run the tasks; return how many images per second the last one trained with, and its metrics row."""
    seconds: list[float] = []
    train = sequence.method.train_task

    def timed(task: Any) -> dict[str, float]:
        torch.cuda.synchronize()
        start = time.perf_counter()
        metrics = train(task)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        return metrics

    with patch.object(sequence.method, "train_task", timed):
        while not sequence.finished and sequence.tasks_done < max(2, sequence.entry.capabilities.tasks_to_peak):
            row = sequence.run_next_task()
    trained = len(sequence.tasks[sequence.tasks_done - 1].train) * sequence.benchmark.spec.epochs
    return trained / seconds[-1], row


def run() -> list[dict[str, Any]]:
    """Measure all methods, one after the other."""
    settle(1)
    claim(1.0)
    benchmark = build_benchmark(SOURCE, "final")
    with random_weights() as weights:
        return [measure(method, benchmark, weights, precision) for precision in PRECISIONS for method in METHODS]
