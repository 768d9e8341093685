"""The learner of the prompt methods: a head per task, one loop of optimiser steps, and the state of both.

A `Prompts` holds everything else: the trained tensors beside the head, and their forward pass through the ViT.

The public code of L2P and CODA-Prompt has one linear head over all classes, with the logits of past classes at -inf in
training. Past and future rows then have no gradient, and an optimiser without weight decay that is made anew for every
task leaves them as they are. So heads of one task each, with past heads fixed, are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.data import Batch, Task
from trainables.heads import Head, Heads, new_head
from trainables.methods.contract import Context
from trainables.methods.training import Schedule, fit, gradient_steps
from trainables.metrics import TRAIN_LOSS
from trainables.randomness import make_generator
from trainables.state import State


class Prompts(Protocol):
    """The trained tensors beside the head, and their forward pass through the frozen ViT."""

    width: int  # d, of the features

    def begin(self, task: Task) -> None:
        """Create the tensors that the task trains."""

    def trained(self) -> list[nn.Parameter]:
        """Return the tensors that the current task trains."""

    def read(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return a training batch's features for the current head, `(b, d)`, and a term to add to the cross-entropy."""

    def end(self) -> None:
        """Freeze the task's tensors."""

    def logits(self, images: Tensor, heads: Heads) -> Tensor:
        """Return logits of all finished classes: `(b, c, h, w)` to `(b, C)`."""

    def state(self) -> State:
        """Return all state that later tasks depend on; see `Method.state`."""

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""


@dataclass(eq=False)
class PromptLearner:
    """An incremental learner of prompts and heads around a frozen ViT, by Adam without decay, anew for every task."""

    context: Context
    prompts: Prompts
    _: KW_ONLY
    lr: float  # at the start of a task
    schedule: Schedule  # the factor of `lr` in every epoch; see `SCHEDULES`
    clip_norm: float | None = None  # limit of the norm of all gradients together; None for no clipping
    # Gives the start of a task's head for its number of classes, the width and a generator.
    new_head: Callable[[int, int, torch.Generator], Head] = new_head

    def __post_init__(self) -> None:
        self.heads = Heads(self.prompts.width, self.context.device)

    def begin_task(self, task: Task) -> None:
        """Begin the task's head at fresh rows, and its prompts."""
        generator = make_generator(self.context.seed, "head", task.index)
        self.heads.begin(self.new_head(len(task.classes), self.prompts.width, generator))
        self.prompts.begin(task)

    def train_task(self, task: Task) -> dict[str, float]:
        """Train the task's head and prompts."""
        parameters = [*self.heads.current, *self.prompts.trained()]
        optimizer = torch.optim.Adam(parameters, lr=self.lr, fused=True)

        def loss(batch: Batch) -> tuple[Tensor, Tensor]:
            features, penalty = self.prompts.read(batch)
            return F.cross_entropy(self.heads.local_logits(features), batch.y - task.classes.start), penalty

        step = gradient_steps(optimizer, loss, clip_norm=self.clip_norm)
        return {TRAIN_LOSS: fit(task, self.context, step, parameters, schedule=self.schedule)}

    def end_task(self, task: Task) -> None:
        """Freeze the task's head and, if they are the task's own, its prompts."""
        self.heads.end()
        self.prompts.end()

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        """Return logits over all classes seen so far."""
        return self.prompts.logits(images, self.heads)

    def state(self) -> State:
        """Return the state of the prompts and of the finished heads; the frozen ViT has none."""
        return self.prompts.state().within("prompts") | self.heads.state().within("heads")

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        self.prompts.load_state(state.part("prompts"))
        self.heads.load_state(state.part("heads"))
