"""Useful arithmetic: FLOPs of a fine-tuning step over its time, against a large matrix product in the same run.

ViT-B/16 with random weights (their values do not matter for time) on drawn noise, ITA with each parametrisation. On the
CPU float32 at batch 32; where there is a GPU, bf16 autocast at batch 128 against a bf16 product.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import timm
import torch
from safetensors.torch import save_file
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.performance.lines import Line, column
from search_spaces import load_space
from trainables.backbones import Backbone
from trainables.config import Precision
from trainables.curvature import Curvature, CurvatureKind, DiagonalCurvature, Factors, KroneckerCurvature
from trainables.data import ImageSet, Task
from trainables.data.transforms.normalisation import Normalise
from trainables.methods import Context, get_method
from trainables.methods.contract import Prepare
from trainables.preconsolidation import Consolidation, Preparation
from trainables.preconsolidation.mixtures import Mixture
from trainables.process import settle

NAME = "vit_base_patch16_224.augreg_in21k"
METHODS = ("ita-lora", "ita-fft", "ita-ia3")
CLASSES, REPEATS = 10, 3
R = TypeVar("R")  # result of a preparation
LINES = (
    Line(
        what="FLOP rate of a step on ViT-B/16 / of a matrix product, batch 32, float32",
        values=column("share", "method", times=100, device="cpu"),
        unit=" %",
        shown=".0f",
        at_least=60,
        floor="100 %",
    ),
)


def measure(method: str, weights: Path, device: str) -> dict[str, Any]:
    """Return the share of the machine's matrix rate that one method's steps reach."""
    gpu = device == "cuda"
    batch, dtype = (128, torch.bfloat16) if gpu else (32, torch.float32)
    precision: Precision = "bf16" if gpu else "fp32"
    learner, task = prepared(method, Backbone(NAME, weights), device, precision, batch, 20 if gpu else 1)
    with FlopCounterMode(display=False) as counter:  # warms up, too
        learner.train_task(task)
    seconds, rates = [], []
    for _ in range(REPEATS):
        rates.append(matrix_rate(device, dtype))
        seconds.append(seconds_of(lambda: learner.train_task(task), device))
    rate = counter.get_total_flops() / statistics.median(seconds)
    return {
        "method": method,
        "device": device,
        "batch": batch,
        "type": str(dtype).removeprefix("torch."),
        "GFLOP per step": counter.get_total_flops() / 1e9 / (len(task.train) // batch),
        "GFLOP/s": rate / 1e9,
        "matrix product, GFLOP/s": statistics.median(rates) / 1e9,
        "share": rate / statistics.median(rates),
    }


@contextmanager
def random_weights() -> Iterator[Path]:
    """A file of random weights of ViT-B/16 for as long as the block runs."""
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.safetensors"
        save_file(timm.create_model(NAME, pretrained=False, num_classes=0).state_dict(), weights)
        yield weights


def prepare_from(known: Sequence[Consolidation]) -> Prepare:
    """Return what gives the consolidations of a list, that of task t at place t - 1."""

    def prepare(preparation: Preparation[R], *, before: bool = False) -> Callable[[Task], Any]:
        return lambda task: known[task.index - 1]

    return prepare


def prepared(
    name: str,
    backbone: Backbone,
    device: str,
    precision: Precision,
    batch: int,
    steps: int,
    curvature: CurvatureKind = "diagonal",
) -> tuple[Any, Task]:
    """Return a method that has begun a task of so many batches of noise, and the task; one epoch."""
    space, entry = load_space(name, "noise"), get_method(name)
    config = {**space.fixed, **space.start, "lr": 1e-4}
    if entry.capabilities.curvature:
        config["curvature"] = curvature
    known: list[Consolidation] = []
    context = Context(
        backbone, (range(CLASSES),), 1, batch, 0, torch.device(device), precision, prepare=prepare_from(known)
    )
    learner: Any = entry.build(context, entry.parse(config))
    reads = backbone.input
    shape = (batch * steps, reads.channels, reads.size, reads.size)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    noise = ImageSet(images, torch.arange(len(images)) % CLASSES, Normalise())
    task = Task(1, range(CLASSES), noise, noise)
    if entry.capabilities.curvature:
        known.append(consolidation(1, learner, CLASSES, curvature))
    learner.begin_task(task)
    return learner, task


def consolidation(
    task: int, learner: Any, classes: int, kind: CurvatureKind = "diagonal", previous: Consolidation | None = None
) -> Consolidation:
    """Return a pre-consolidation of a task with so many classes so far, whose values do not matter for time."""
    width = learner.width
    mixture = Mixture(torch.ones(1), torch.zeros(1, width), torch.ones(1, width))
    held = _curvature(kind, {name: tuple(weight.shape) for name, weight in learner.vectors.theta_0.items()})
    head = (torch.zeros(classes, width), torch.zeros(classes))
    return Consolidation(task, head, (mixture,) * classes, held, task, previous)


def _curvature(kind: CurvatureKind, shapes: dict[str, tuple[int, ...]]) -> Curvature:
    """Return the same curvature in either form."""
    if kind == "diagonal":
        return DiagonalCurvature({name: torch.full(shape, 1e-3) for name, shape in shapes.items()})
    return KroneckerCurvature(
        {name: Factors(torch.eye(i)[None], 1e-3 * torch.eye(o)[None]) for name, (o, i) in shapes.items()}
    )


def matrix_rate(device: str, dtype: torch.dtype) -> float:
    """Return FLOP/s of a large square product."""
    size = 8192 if device == "cuda" else 3072
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    torch.mm(a, b)
    return 2 * size**3 / seconds_of(lambda: torch.mm(a, b), device)


def seconds_of(work: Callable[[], Any], device: str) -> float:
    """Do a piece of work, and return the seconds until the device has done it."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def run() -> list[dict[str, Any]]:
    """Measure on the CPU with all its threads, and on a GPU where there is one."""
    settle(torch.get_num_threads())
    with random_weights() as weights:
        devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
        return [measure(method, weights, device) for device in devices for method in METHODS]
