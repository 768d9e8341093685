"""Constant cost: one training step and one evaluation with 64 tasks behind against with 2 behind.

Pairs alternate in one run, and the median of the ratios of their CPU seconds is reported: on one thread these leave out
what else the machine does. Memory is the bytes of all tensors that the method holds.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks.arithmetic import consolidation, prepare_from
from benchmarks.performance.lines import Line, column
from trainables.backbones import Backbone
from trainables.data import ImageSet, Task
from trainables.data.transforms.normalisation import Normalise
from trainables.methods import Context, get_method
from trainables.preconsolidation import Consolidation
from trainables.process import settle

METHODS = ("ita-fft", "ita-lora", "ita-ia3", "iel-fft", "iel-lora", "iel-ia3")
FEW, MANY, REPEATS = 2, 64, 15
LINES = (
    Line(
        what="CPU time of a training step at 64 tasks / at 2, six systems of ITA and IEL",
        values=column("step", "method"),
        floor="1",
    ),
    Line(what="an evaluation, the same", values=column("evaluation", "method"), floor="1"),
    Line(what="memory held between steps, the same", values=column("memory", "method"), floor="1 (b)"),
)


def measure(method: str) -> dict[str, Any]:
    """Return the ratios of many tasks to few: CPU seconds of a step and of an evaluation, bytes held per class."""
    images = torch.randint(0, 256, (32, 1, 32, 32), dtype=torch.uint8)
    few, many = (_prepared(method, tasks, images) for tasks in (FEW, MANY))
    x = Normalise()(images)

    def step(prepared: tuple[Any, Task]) -> None:
        prepared[0].train_task(prepared[1])

    def evaluate(prepared: tuple[Any, Task]) -> None:
        prepared[0].predict(x)

    return {
        "method": method,
        "step": _ratio(lambda: step(many), lambda: step(few)),
        "evaluation": _ratio(lambda: evaluate(many), lambda: evaluate(few)),
        "memory": _bytes(many[0]) / _bytes(few[0]),
    }


def _prepared(name: str, tasks: int, images: Tensor) -> tuple[Any, Task]:
    """Make a method that has ended `tasks` tasks of one class each and has begun the next."""
    entry = get_method(name)
    strength = "alpha" if name.startswith("ita") else "beta"
    config = entry.parse({strength: 1.0, f"{strength}_cls": 0.1, f"{strength}_cls_prior": 0.01, "lr": 1e-4})
    # One step per call of train_task: one epoch of one batch.
    known: list[Consolidation] = []
    classes = tuple(range(t, t + 1) for t in range(tasks + 1))
    context = Context(Backbone(), classes, 1, 32, 0, torch.device("cpu"), prepare=prepare_from(known))
    method = entry.build(context, config)
    task = None
    for t in range(1, tasks + 2):
        task = Task(t, range(t - 1, t), *(ImageSet(images, torch.full((32,), t - 1), Normalise()) for _ in range(2)))
        before = replace(known[-1], previous=None) if known else None
        known.append(consolidation(t, method, t, previous=before))
        method.begin_task(task)
        if t <= tasks:
            method.end_task(task)
    assert task is not None
    return method, task


def _ratio(large: Callable[[], None], small: Callable[[], None]) -> float:
    ratios = []
    for _ in range(REPEATS):
        seconds = []
        for work in (large, small):
            start = time.process_time()
            for _ in range(5):
                work()
            seconds.append(time.process_time() - start)
        ratios.append(seconds[0] / seconds[1])
    return statistics.median(ratios)


def _bytes(method: Any) -> int:
    """Count the bytes of all tensors that can be reached from a method, each storage once."""
    seen, storages, queue = set(), {}, [method]
    while queue:
        item = queue.pop()
        if id(item) in seen or isinstance(item, type | type(gc)):
            continue
        seen.add(id(item))
        if isinstance(item, Tensor):
            storages[item.untyped_storage().data_ptr()] = item.untyped_storage().nbytes()
        elif hasattr(item, "__dict__") or isinstance(item, list | tuple | dict | set):
            queue += gc.get_referents(item)
    return sum(storages.values())


def run() -> list[dict[str, Any]]:
    """Measure all six systems."""
    settle(1)
    return [measure(method) for method in METHODS]
