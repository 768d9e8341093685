"""What a CUDA graph gives a step of the embedded ViT, and compiled blocks one of ViT-B/16, on a GPU.

Images per second of one trial with and without, in turn in one process, on noise that lies in the memory of the CPU.
The embedded ViT has the batches of its benchmarks, and the weights that both ways end with are compared. ViT-B/16 has
the paper's, random weights, and its FLOPs beside a large product in bf16. "First" is the time of the first training
with compiled blocks, which compiles them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.arithmetic import NAME, matrix_rate, prepared, random_weights, seconds_of
from benchmarks.gpu import NO_GPU
from benchmarks.gpu.packing import images_per_second
from trainables.backbones import Backbone
from trainables.backbones.compiling import compile_blocks
from trainables.config import PRECISIONS, Precision
from trainables.data import Task
from trainables.device import claim
from trainables.methods import contract
from trainables.process import settle

SMALL_METHODS = ("ita-lora", "ita-fft", "ita-ia3")
LARGE: tuple[tuple[str, Precision], ...] = (
    ("ita-fft", "bf16"),
    ("ita-lora", "bf16"),
    ("iel-lora", "bf16"),
    ("ita-lora", "tf32"),
)
SMALL_BATCH, SMALL_STEPS, LARGE_BATCH, LARGE_STEPS = 32, 40, 128, 24
SECONDS, REPEATS = 1.5, 3
ALL, NEVER = 10**9, 10**12


@contextmanager
def deciding(*, graphs: bool) -> Iterator[None]:
    """Decide on graphs for all trials inside the block, and compile nothing by itself."""
    limits = dict.fromkeys(PRECISIONS, ALL if graphs else 0)
    with patch.object(contract, "LAUNCH_BOUND", limits), patch.object(contract, "PAYS_FROM", NEVER):
        yield


def small(method: str, precision: Precision) -> dict[str, Any]:
    """Measure the embedded ViT without and with graphs."""
    rates, ends = [], []
    for graphs in (False, True):
        with deciding(graphs=graphs):
            learner, task = prepared(method, Backbone(), "cuda", precision, SMALL_BATCH, SMALL_STEPS)
            _seconds(learner, task)
            ends.append(_weights(learner))
            rates.append(images_per_second(learner, task, SECONDS))
    difference = float((ends[0] - ends[1]).abs().max() / ends[0].abs().max())
    return {**_row("embedded ViT", method, precision, rates), "difference": difference}


def large(method: str, precision: Precision, backbone: Backbone) -> dict[str, Any]:
    """Measure ViT-B/16 without and with compiled blocks."""
    rates, first, flops = [], 0.0, 0.0
    for compiled in (False, True):
        gc.collect()
        torch.cuda.empty_cache()
        with deciding(graphs=False):
            learner, task = prepared(method, backbone, "cuda", precision, LARGE_BATCH, LARGE_STEPS)
            if compiled:
                compile_blocks(learner.vectors.model)
            else:
                with FlopCounterMode(display=False) as counter:
                    learner.train_task(task)
                flops = counter.get_total_flops() / len(task.train)
            first = _seconds(learner, task)
            rates.append(_fastest(learner, task))
    product = matrix_rate("cuda", torch.bfloat16)
    shares = {"share": flops * rates[0] / product, "share, changed": flops * rates[1] / product}
    return {**_row("ViT-B/16", method, precision, rates), "first": first, **shares, "product": product / 1e12}


def _row(backbone: str, method: str, precision: Precision, rates: list[float]) -> dict[str, Any]:
    usual, changed = rates
    about = {"backbone": backbone, "method": method, "precision": precision}
    return {**about, "images/s": usual, "images/s, changed": changed, "ratio": changed / usual}


def _weights(learner: Any) -> Tensor:
    parameters = [*learner.vectors.parameters(), *learner.heads.current]
    return torch.cat([parameter.detach().flatten() for parameter in parameters])


def _seconds(learner: Any, task: Task) -> float:
    return seconds_of(lambda: learner.train_task(task), "cuda")


def _fastest(learner: Any, task: Task) -> float:
    """Return the images per second of the fastest training."""
    return len(task.train) / min(_seconds(learner, task) for _ in range(REPEATS))


def run() -> list[dict[str, Any]]:
    """Measure both."""
    if not torch.cuda.is_available():
        return NO_GPU
    settle(1)
    claim(1.0)
    rows = [small(method, precision) for method in SMALL_METHODS for precision in PRECISIONS]
    with random_weights() as weights:
        backbone = Backbone(NAME, weights)
        return rows + [large(method, precision, backbone) for method, precision in LARGE]
