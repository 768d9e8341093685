"""Where the CPU time of one trial on digits goes, for the methods that `trials` times beside their authors' code.

A part of the time is what any program spends that trains as the method says: the network forward, autograd's backward
passes, and the optimiser. What is left is all that another program could save. A trial runs as in `trials`, twice in
one process; the second is counted, which imports nothing any more.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from timm.models.vision_transformer import Block
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from benchmarks.authors.parity.ours import sequence
from benchmarks.authors.parity.shared import Run
from benchmarks.authors.parity.trials import PROGRAMS, first_runs
from trainables.backbones.linearised.dual_block import DualBlock
from trainables.backbones.token_vit import TokenViT
from trainables.data import build_benchmark, get_source
from trainables.process import settle

FORWARD, BACKWARD, OPTIMISER, FROZEN = "forward", "backward", "optimiser", "passes without gradients"
PARTS = (FORWARD, BACKWARD, OPTIMISER, FROZEN)
BLOCKS = (Block, DualBlock)


def _pass() -> str:
    return FORWARD if torch.is_grad_enabled() else FROZEN


WATCHED = (  # prompts open a block, and call its two halves
    (torch.autograd, "_engine_run_backward", lambda: BACKWARD),
    (TokenViT, "project", _pass),
    (TokenViT, "complete", _pass),
)


class Stopwatch:
    """CPU seconds of each part; a part that begins within another one interrupts it."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._running: list[str] = []
        self._since = 0.0

    def begin(self, part: str) -> None:
        """Count for a part from now on."""
        self._count()
        self._running.append(part)

    def end(self) -> None:
        """Count again for what was interrupted."""
        self._count()
        self._running.pop()

    def _count(self) -> None:
        now = time.process_time()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now


@contextmanager
def watched(watch: Stopwatch) -> Iterator[None]:
    """Have a stopwatch see the blocks of networks, all backward passes, and the steps of optimisers."""

    def counted(function: Callable[..., Any], part: Callable[[], str]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            watch.begin(part())
            try:
                return function(*arguments, **options)
            finally:
                watch.end()

        return wrapped

    def enter(module: nn.Module, _: Any) -> None:
        if isinstance(module, BLOCKS):
            watch.begin(_pass())

    def leave(module: nn.Module, *_: Any) -> None:
        if isinstance(module, BLOCKS):
            watch.end()

    hooks: list[tuple[Callable[[Any], Any], Any]] = [
        (register_module_forward_pre_hook, enter),
        (register_module_forward_hook, leave),
        (register_optimizer_step_pre_hook, lambda *_: watch.begin(OPTIMISER)),
        (register_optimizer_step_post_hook, lambda *_: watch.end()),
    ]
    with ExitStack() as stack:
        for owner, name, part in WATCHED:
            stack.enter_context(patch.object(owner, name, counted(getattr(owner, name), part)))
        for register, hook in hooks:
            stack.callback(register(hook).remove)
        yield


def measure(run: Run) -> dict[str, Any]:
    """Run a trial and return the percent of its CPU time that each part takes."""
    watch, built = Stopwatch(), build_benchmark(get_source("digits"), "final")
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
