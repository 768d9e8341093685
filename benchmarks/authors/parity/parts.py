"""Where the CPU time of one trial on digits goes, for the methods that `trials` times beside their authors' code.

A part of the time is what any program spends that trains as the method says: the network forward, autograd's backward
passes, and the optimiser. What is left is all that another program could save. A trial runs as in `trials`, twice in
one process; the second is counted, which imports nothing any more.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from timm.models.vision_transformer import Block
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from benchmarks.authors.parity.ours import sequence
from benchmarks.authors.parity.shared import Run
from benchmarks.authors.parity.trials import PROGRAMS, first_runs
from benchmarks.stopwatch import Stopwatch
from trainables.backbones.linearised.dual_block import DualBlock
from trainables.backbones.token_vit import TokenViT
from trainables.data import build_benchmark, get_source
from trainables.process import settle

FORWARD, BACKWARD, OPTIMISER, FROZEN = "forward", "backward", "optimiser", "passes without gradients"
PARTS = (FORWARD, BACKWARD, OPTIMISER, FROZEN)


def _pass() -> str:
    return FORWARD if torch.is_grad_enabled() else FROZEN


WATCHED = (  # prompts open a block, and call its two halves
    (torch.autograd, "_engine_run_backward", BACKWARD),
    (Block, "forward", _pass),
    (DualBlock, "forward", _pass),
    (TokenViT, "project", _pass),
    (TokenViT, "complete", _pass),
)


@contextmanager
def watched(watch: Stopwatch) -> Iterator[None]:
    """Have a stopwatch see the blocks of networks, all backward passes, and the steps of optimisers."""
    begin = register_optimizer_step_pre_hook(lambda *_: watch.begin(OPTIMISER))
    end = register_optimizer_step_post_hook(lambda *_: watch.end())
    try:
        with watch.watching(WATCHED):
            yield
    finally:
        begin.remove()
        end.remove()


def measure(run: Run) -> dict[str, Any]:
    """Run a trial and return the percent of its CPU time that each part takes."""
    watch, built = Stopwatch(time.process_time), build_benchmark(get_source("digits"), "final")
    trial = sequence(run, built)
    start = time.process_time()
    with watched(watch):
        while not trial.finished:
            trial.run_next_task()
    total = time.process_time() - start
    percent = {part: 100 * watch.seconds[part] / total for part in PARTS}
    return {"method": run.method, **percent, "rest": 100 - sum(percent.values())}


def run() -> list[dict[str, Any]]:
    """Measure every method that has a program beside it."""
    settle(1)
    runs = [each for program in PROGRAMS for each in first_runs(program)]
    return [[measure(each) for _ in range(2)][-1] for each in runs]
