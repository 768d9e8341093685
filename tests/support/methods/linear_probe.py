"""A method that the registry does not have: linear classifiers on frozen features, trained from random rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.data import Batch, Task
from trainables.heads import new_head
from trainables.methods import Capabilities, Context, MethodEntry
from trainables.methods.hyperparameters import Positive
from trainables.methods.probe import Probe, ProbeConfig
from trainables.methods.training import fit, local_loss
from trainables.metrics import TRAIN_LOSS
from trainables.randomness import make_generator


@dataclass(frozen=True, kw_only=True)
class LinearProbeConfig:
    lr: Positive


class LinearProbe(Probe):
    def __init__(self, context: Context, config: LinearProbeConfig) -> None:
        super().__init__(context, ProbeConfig())  # its probing is never asked for
        self.config = config

    def begin_task(self, task: Task) -> None:
        generator = make_generator(self.context.seed, "head", task.index)
        self.heads.begin(new_head(len(task.classes), self.model.num_features, generator))

    def train_task(self, task: Task) -> dict[str, float]:
        def step(batch: Batch, factor: float) -> Tensor:
            loss = local_loss(self.context, self.model, self.heads, batch.x, batch.y - task.classes.start)
            for part, gradient in zip(self.heads.current, torch.autograd.grad(loss, self.heads.current), strict=True):
                part.data -= self.config.lr * factor * gradient
            return loss.detach()

        return {TRAIN_LOSS: fit(task, self.context, step, self.heads.current)}


LINEAR_PROBE = MethodEntry("linear-probe", LinearProbeConfig, Capabilities(), LinearProbe)
