"""A whole method in forty lines, to see what one has to bring: linear classifiers on frozen features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from trainables.composition import Origin
from trainables.data import Batch, Task
from trainables.heads import Heads, new_head
from trainables.methods import Capabilities, Context, MethodEntry
from trainables.methods.hyperparameters import Positive
from trainables.methods.training import fit, local_loss
from trainables.metrics import TRAIN_LOSS
from trainables.preconsolidation import Consolidation
from trainables.randomness import make_generator
from trainables.state import State


@dataclass(frozen=True, kw_only=True)
class LinearProbeConfig:
    lr: Positive


class LinearProbe:
    def __init__(self, context: Context, config: LinearProbeConfig) -> None:
        self.context, self.config = context, config
        self.model = context.backbone.load(context.device).requires_grad_(False)
        self.heads = Heads(self.model.num_features, context.device)

    def begin_task(self, task: Task, consolidation: Consolidation | None) -> None:
        generator = make_generator(self.context.seed, "head", task.index)
        self.heads.begin(new_head(len(task.classes), self.model.num_features, generator))

    def train_task(self, task: Task) -> dict[str, float]:
        def step(batch: Batch, factor: float) -> Tensor:
            loss = local_loss(self.context, self.model, self.heads, batch.x, batch.y - task.classes.start)
            for part, gradient in zip(self.heads.current, torch.autograd.grad(loss, self.heads.current), strict=True):
                part.data -= self.config.lr * factor * gradient
            return loss.detach()

        return {TRAIN_LOSS: fit(task, self.context, step, self.heads.current)}

    def end_task(self, task: Task) -> None:
        self.heads.end()

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        return self.heads.logits(self.context.features(self.model, images))

    def save_artifacts(self, folder: Path, origin: Origin) -> None:
        pass

    def state(self) -> State:
        return self.heads.state()

    def load_state(self, state: State) -> None:
        self.heads.load_state(state)


LINEAR_PROBE = MethodEntry("linear-probe", LinearProbeConfig, Capabilities(), LinearProbe)
