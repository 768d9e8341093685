"""LwF-MC: binary cross-entropy to the one-hot label on the task's classes, and to the old network on past classes.

Notation: g_k is the logit of class k, g* that of the network after task t - 1, sigma the logistic function,
C_t the number of classes of tasks 1 to t.

    loss_t(x, y) = 1/C_t [ sum_{k of past tasks} BCE(g_k(x), sigma(g*_k(x))) + sum_{k of task t} BCE(g_k(x), [y = k]) ]
                   + wd sum theta^2                                  (`reduction: sum` leaves 1/C_t out)

g and g* see the same augmented image; images of past tasks are not kept. The class of the largest logit is predicted.

Source: Rebuffi et al. 2017, https://arxiv.org/abs/1611.07725, algorithm 3 and section 4, iCaRL's network without
exemplars and without nearest means; it sums over classes. The mean over classes, the L2 term on every weight (no 1/2,
hence a gradient of 2 wd theta) and plain SGD are the authors' code (mammoth, `models/lwf_mc.py`, `wd_reg`).
Departures: `docs/explanation/methods/lwf-mc.md`.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.data import Batch, Task
from trainables.heads import Head
from trainables.methods.contract import Context
from trainables.methods.hyperparameters import NonNegative
from trainables.methods.sequential.learner import SequentialConfig, SequentialLearner, add_to_gradients
from trainables.methods.training import CHANCE_BINARY_CROSS_ENTROPY


@dataclass(frozen=True, kw_only=True)
class LwFMCConfig(SequentialConfig):
    """Hyperparameters of LwF-MC."""

    wd: NonNegative = 0.0  # strength of the L2 term on all weights
    # Over the classes seen so far: the authors' code has the mean, iCaRL the sum. Under the mean a step moves each
    # output less with every task.
    reduction: Literal["mean", "sum"] = "mean"


class LwFMC(SequentialLearner):
    """LwF-MC; see the module."""

    config: LwFMCConfig

    def __init__(self, context: Context, config: LwFMCConfig) -> None:
        super().__init__(context, config)
        self.old: tuple[nn.Module, Head] | None = None  # after task t - 1; None between tasks
        self.squares_before = 0.0  # sum theta^2 at the start of the task

    def begin_task(self, task: Task) -> None:
        """Copy the network after the last task."""
        super().begin_task(task)
        self.squares_before = self._squares()
        if task.classes.start:
            weight, bias = (part.detach()[: task.classes.start].clone() for part in self.head.parameters())
            self.old = (deepcopy(self.model).requires_grad_(False), (weight, bias))

    def loss(self, task: Task, batch: Batch) -> Tensor:
        """Return the binary cross-entropy: the mean over the batch, and the mean or sum over the classes seen."""
        logits = self.head.local_logits(self.context.features(self.model, batch.x), range(self.seen))
        return self._outputs() * F.binary_cross_entropy_with_logits(logits, self.targets(task, batch))

    @torch.no_grad()
    def targets(self, task: Task, batch: Batch) -> Tensor:
        """Return the targets of all outputs, `(b, C_t)`: the old network's probabilities, then the one-hot labels."""
        one_hot = F.one_hot(batch.y - task.classes.start, len(task.classes)).to(self.head.weight)
        if self.old is None:
            return one_hot
        model, (weight, bias) = self.old
        past = F.linear(self.context.features(model, batch.x), weight, bias).sigmoid()
        return torch.cat([past, one_hot], dim=1)

    def chance_loss(self, task: Task) -> float:
        """Return the loss of zero logits."""
        return self._outputs() * CHANCE_BINARY_CROSS_ENTROPY

    def penalty(self) -> float:
        """Return wd sum theta^2 minus its value at the start of the task."""
        return self.config.wd * (self._squares() - self.squares_before)

    def add_penalty_gradients(self) -> None:
        """Add 2 wd theta to every gradient."""
        if self.config.wd:
            add_to_gradients(self.weights, self.weights, 2 * self.config.wd)

    def end_task(self, task: Task) -> None:
        """Drop the old network."""
        self.old = None

    def _outputs(self) -> int:
        """Return the factor that turns the mean over classes into the configured reduction."""
        return self.seen if self.config.reduction == "sum" else 1

    def _squares(self) -> float:
        return sum(float(weight.detach().square().sum()) for weight in self.weights.values()) if self.config.wd else 0.0
