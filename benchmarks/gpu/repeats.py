"""Compare each method's results on a GPU with those on the CPU, with a second run, and with a resumed run.

Each method runs digits on the CPU, twice on the GPU, and once more on the GPU with its sequence thrown away after the
second task and another continued from its state. Accuracies on validation images, and the largest difference of what
a checkpoint would hold, relative to the largest number in the same tensor. One process per CPU, all on one GPU.
"""

from __future__ import annotations

import multiprocessing as mp
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from search_spaces import load_space
from trainables.backbones import Backbone
from trainables.data import build_benchmark, get_source
from trainables.device import claim
from trainables.methods import METHODS
from trainables.process import settle
from trainables.sequence import IncrementalSequence
from trainables.state import State

MOST_PROCESSES, INTERRUPTED_AFTER = 16, 2
Found = tuple[list[float], State]


def begun(method: str, device: torch.device, benchmark: str = "digits", **options: Any) -> IncrementalSequence:
    """Return a sequence of a method, with the hyperparameters that its search space starts from."""
    space = load_space(method, benchmark)
    built = build_benchmark(get_source(benchmark), "search")
    values = {**space.fixed, **space.start}
    return IncrementalSequence(built, method, values, backbone=Backbone(), device=device, **options)


def finished(sequence: IncrementalSequence) -> Found:
    """Run all tasks that are left; return the last accuracies, percent, and the state."""
    while not sequence.finished:
        sequence.run_next_task()
    return sequence.accuracies[-1], sequence.state()


def resumed(method: str, device: torch.device) -> Found:
    """Run some tasks, and the rest in a sequence that continues from their state."""
    first, second = begun(method, device), begun(method, device)
    for _ in range(min(INTERRUPTED_AFTER, len(first.tasks))):
        first.run_next_task()
    second.load_state(first.state())
    return finished(second)


def largest_difference(one: State, other: State) -> float:
    """Return the largest difference of two states, each tensor's relative to the largest number in it.

    It is infinite where shapes differ: how many directions `inflora` protects depends on rounding.
    """
    pairs = zip(*({**each.tensors, **each.constant}.items() for each in (one, other)), strict=True)
    worst = 0.0
    for (name, a), (same_name, b) in pairs:
        assert name == same_name
        if a.shape != b.shape:
            return float("inf")
        if a.numel():
            a, b = a.cpu().double(), b.cpu().double()
            worst = max(worst, float((a - b).abs().max() / (a.abs().max() or 1)))
    return worst


def measure(method: str, share: float) -> dict[str, Any]:
    """Run one method on the CPU and three times on the GPU."""
    settle(1)
    gpu = claim(share)
    on_cpu, cpu_state = finished(begun(method, torch.device("cpu")))
    once, state = finished(begun(method, gpu))
    again, same_state = finished(begun(method, gpu))
    continued, continued_state = resumed(method, gpu)
    return {
        "method": method,
        "accuracy, CPU": sum(on_cpu) / len(on_cpu),
        "accuracy, GPU": sum(once) / len(once),
        "again": sum(again) / len(again),
        "resumed": sum(continued) / len(continued),
        "difference, CPU": f"{largest_difference(cpu_state, state):.1e}",
        "difference, again": f"{largest_difference(state, same_state):.1e}",
        "difference, resumed": f"{largest_difference(state, continued_state):.1e}",
    }


def run() -> list[dict[str, Any]]:
    """Measure all methods, several at a time."""
    with processes_on_one_gpu() as (pool, share):
        return list(pool.map(partial(measure, share=share), METHODS))


@contextmanager
def processes_on_one_gpu() -> Iterator[tuple[ProcessPoolExecutor, float]]:
    """Give a process for each CPU, and the share of the GPU that each may claim."""
    processes = min(MOST_PROCESSES, len(os.sched_getaffinity(0)))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(processes, mp_context=mp.get_context("spawn")) as pool:
        yield pool, 1 / processes
