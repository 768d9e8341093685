"""Probe: linear classifiers on the frozen backbone theta_0, one per task, side by side. A lower bound.

A task's rows are h0_t, the classifier from which ITA and IEL start the task: linear probing and alignment of
pre-consolidation, without the Fisher. So the model is that of ITA without task vectors. What a method adds to the
pre-trained features is its accuracy less that of Probe. It is none of the paper's systems.

Source: the paper, section Implementation details (Linear Probing).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trainables.data import Batch, Task
from trainables.heads import Heads
from trainables.methods.contract import Context
from trainables.methods.hyperparameters import Count, Positive, ProbingConfig
from trainables.methods.training import fit, local_loss
from trainables.metrics import TRAIN_LOSS
from trainables.state import State


@dataclass(frozen=True, kw_only=True)
class ProbeConfig(ProbingConfig):
    """Hyperparameters of Probe: those of linear probing. There is nothing to regularise, so no Fisher is estimated."""

    lr_pre: Positive = 0.01
    epochs_pre: Count = 3


class Probe:
    """Probed classifiers on theta_0; see the module."""

    def __init__(self, context: Context, config: ProbeConfig) -> None:
        self.context = context
        self.prepared = context.prepare(config.preconsolidation)
        self.model = context.backbone.load(context.device).requires_grad_(False)
        self.heads = Heads(self.model.num_features, context.device)

    def begin_task(self, task: Task) -> None:
        """Take the task's rows of the probed classifier, as they are at this task."""
        weight, bias = self.prepared(task).head
        self.heads.begin((weight[task.rows], bias[task.rows]))

    @torch.no_grad()
    def train_task(self, task: Task) -> dict[str, float]:
        """Train nothing; one pass over the training images measures the local loss."""

        def measure(batch: Batch, factor: float) -> Tensor:
            return local_loss(self.context, self.model, self.heads, batch.x, batch.y - task.classes.start)

        return {TRAIN_LOSS: fit(task, replace(self.context, epochs=1), measure, self.heads.current)}

    def end_task(self, task: Task) -> None:
        """Put the task's rows beside the others."""
        self.heads.end()

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        """Return logits over all classes seen so far."""
        return self.heads.logits(self.context.features(self.model, images))

    def state(self) -> State:
        """Return the rows of all tasks."""
        return self.heads.state()

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        self.heads.load_state(state)
