"""What a CUDA graph gives a step of the embedded ViT, and other ways one of ViT-B/16, on a GPU.

Images per second of one trial with and without, in turn in one process, on noise that lies in the memory of the CPU.
The embedded ViT has the batches of its benchmarks, and the weights that both ways end with are compared. ViT-B/16 has
the paper's, and random weights. With compiled blocks its FLOPs are taken beside a large product in bf16, and "first" is
the time of the first training, which compiles them. `ANOTHER_WAY` has parts of a step that were done otherwise before.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.arithmetic import NAME, matrix_rate, prepared, random_weights, seconds_of
from benchmarks.gpu.packing import images_per_second
from trainables.backbones import Backbone
from trainables.backbones.compiling import compile_blocks
from trainables.backbones.linearised import dual_block
from trainables.config import PRECISIONS, Precision
from trainables.data import Task
from trainables.device import claim
from trainables.methods import Context, contract
from trainables.process import settle
from trainables.task_vectors import lora

SMALL_METHODS = ("ita-lora", "ita-fft", "ita-ia3")
LARGE: tuple[tuple[str, Precision], ...] = (
    ("ita-fft", "bf16"),
    ("ita-lora", "bf16"),
    ("iel-lora", "bf16"),
    ("joint", "bf16"),
    ("derpp", "bf16"),
    ("tmc", "bf16"),
    ("ita-lora", "tf32"),
)
SMALL_BATCH, SMALL_STEPS, LARGE_BATCH, LARGE_STEPS = 32, 40, 128, 16
SECONDS, REPEATS = 1.5, 3
MANY = 10**9  # weights of a backbone, more than any has
BUILT, WRITTEN_OUT = "LoRA's weights built", "the derivative written out"
Way = Callable[[], AbstractContextManager[Any]]
WAYS: dict[str, tuple[Way, Way]] = {  # of before, and of now
    BUILT: (
        partial(patch.object, lora, "is_built", return_value=False),
        partial(patch.object, lora, "is_built", return_value=True),
    ),
    WRITTEN_OUT: (partial(patch.object, dual_block, "write_blocks_out", return_value=False), nullcontext),
}
ANOTHER_WAY: tuple[tuple[str, str, Precision, bool], ...] = (  # and whether blocks are compiled
    (BUILT, "ita-lora", "bf16", False),
    (BUILT, "ita-lora", "bf16", True),
    (BUILT, "ita-lora", "tf32", False),
    (WRITTEN_OUT, "tmc", "bf16", False),
)


@contextmanager
def deciding(*, graphs: bool = False, compiled: bool = False) -> Iterator[None]:
    """Decide on graphs and on compiled blocks for all trials inside the block, with nothing left of earlier ones."""

    def make_ready(context: Context, model: nn.Module, task: Task) -> None:
        if compiled:
            compile_blocks(model)

    gc.collect()
    torch.cuda.empty_cache()
    torch._dynamo.reset()
    limits = dict.fromkeys(PRECISIONS, MANY if graphs else 0)
    with patch.object(contract, "LAUNCH_BOUND", limits), patch.object(Context, "make_ready", make_ready):
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
        with deciding(compiled=compiled):
            learner, task = prepared(method, backbone, "cuda", precision, LARGE_BATCH, LARGE_STEPS)
            if not compiled:
                flops = _flops(learner, task)
            first = _seconds(learner, task)
            rates.append(_fastest(learner, task))
    product = matrix_rate("cuda", torch.bfloat16)
    shares = {"share": flops * rates[0] / product, "share, changed": flops * rates[1] / product}
    return {**_row("ViT-B/16", method, precision, rates), "first": first, **shares, "product": product / 1e12}


def another_way(what: str, method: str, precision: Precision, compiled: bool, backbone: Backbone) -> dict[str, Any]:
    """Measure ViT-B/16 with a part of the step done as before, and as now."""
    rates = []
    for way in WAYS[what]:
        with deciding(compiled=compiled), way():
            learner, task = prepared(method, backbone, "cuda", precision, LARGE_BATCH, LARGE_STEPS)
            _seconds(learner, task)
            rates.append(_fastest(learner, task))
    return {**_row("ViT-B/16", method, precision, rates), "what": what, "compiled": compiled}


def _row(backbone: str, method: str, precision: Precision, rates: list[float]) -> dict[str, Any]:
    usual, changed = rates
    about = {"backbone": backbone, "method": method, "precision": precision}
    return {**about, "images/s": usual, "images/s, changed": changed, "ratio": changed / usual}


def _weights(learner: Any) -> Tensor:
    parameters = [*learner.vectors.parameters(), *learner.heads.current]
    return torch.cat([parameter.detach().flatten() for parameter in parameters])


def _flops(learner: Any, task: Task) -> float:
    """Train once; return the FLOPs for an image of the task, its share of a method's further images included."""
    with FlopCounterMode(display=False) as counter:
        learner.train_task(task)
    return counter.get_total_flops() / len(task.train)


def _seconds(learner: Any, task: Task) -> float:
    return seconds_of(lambda: learner.train_task(task), "cuda")


def _fastest(learner: Any, task: Task) -> float:
    """Return the images per second of the fastest training."""
    return len(task.train) / min(_seconds(learner, task) for _ in range(REPEATS))


def run() -> list[dict[str, Any]]:
    """Measure ViT-B/16."""
    settle(1)
    claim(1.0)
    with random_weights() as weights:
        backbone = Backbone(NAME, weights)
        rows = [large(method, precision, backbone) for method, precision in LARGE]
        return rows + [another_way(*case, backbone) for case in ANOTHER_WAY]


def run_graphs() -> list[dict[str, Any]]:
    """Measure the embedded ViT."""
    settle(1)
    claim(1.0)
    return [small(method, precision) for method in SMALL_METHODS for precision in PRECISIONS]
