"""Finetune and Joint: every weight of the ViT and a head per task, on the local cross-entropy, with nothing held."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor
from torch.func import functional_call

from tests.reference.composable.optimisation import Adam, gradients_of
from tests.reference.stages import BATCH, batches, drawn
from trainables.data import Task

Weights = dict[str, Tensor]


@dataclass
class FinetuneReference:
    """Plain SGD or AdamW; in each task the step size follows c_e = cos(99 pi e / (200 (K - 1)))."""

    model: VisionTransformer
    optimizer: str
    lr: float
    epochs: int
    seed: int
    theta: Weights = field(default_factory=dict)
    heads: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    loss: float = math.nan

    def __post_init__(self) -> None:
        self.theta = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}

    def learn(self, task: Task) -> None:
        """Go on from where the last task has left the ViT, with fresh rows and a fresh optimiser."""
        c, generator = len(task.classes), drawn(self.seed, "head", task.index)
        weight = torch.nn.init.trunc_normal_(torch.empty(c, 16), std=0.02, generator=generator)
        values = {**self.theta, "head.weight": weight, "head.bias": torch.zeros(c)}
        order, adam = drawn(self.seed, "finetune", task.index), Adam()
        for epoch in range(self.epochs):
            lr = self.lr * math.cos(99 * math.pi * epoch / (200 * (self.epochs - 1)))
            total = 0.0
            for x, y in batches(task.train, BATCH, order, shuffle=True):
                values = {name: value.detach().requires_grad_() for name, value in values.items()}
                loss = F.cross_entropy(self.logits_of(values, x), y - task.classes[0])
                total += loss.item() * len(y)
                values = self.step(values, gradients_of(loss, values), lr, adam)
            self.loss = total / len(task.train.labels)
        self.heads.append((values.pop("head.weight"), values.pop("head.bias")))
        self.theta = values

    def step(self, values: Weights, gradients: Weights, lr: float, adam: Adam) -> Weights:
        values = {name: value.detach() for name, value in values.items()}
        if self.optimizer == "adamw":
            return adam.step(values, gradients, lr)
        return {name: value - lr * gradients[name] for name, value in values.items()}

    def logits_of(self, values: Weights, x: Tensor) -> Tensor:
        backbone = {name: value for name, value in values.items() if not name.startswith("head.")}
        return functional_call(self.model, backbone, x) @ values["head.weight"].T + values["head.bias"]

    def logits(self, x: Tensor) -> Tensor:
        """Of all classes seen so far."""
        weight, bias = (torch.cat(rows) for rows in zip(*self.heads, strict=True))
        return self.logits_of({**self.theta, "head.weight": weight, "head.bias": bias}, x).detach()
