"""SLDA: linear discriminant analysis on the frozen backbone's features, one class mean and one covariance for all.

Source: Hayes and Kanan 2020, "Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis",
https://arxiv.org/abs/1909.01520. Departure: the statistics are taken once per task and not once per image; both give
the same means and covariance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from trainables.data import Task
from trainables.methods import Context
from trainables.metrics import TRAIN_LOSS
from trainables.randomness import make_generator
from trainables.state import State


@dataclass(frozen=True, kw_only=True)
class SLDAConfig:
    """Hyperparameters of SLDA."""

    shrinkage: Annotated[float, Field(gt=0, le=1)] = 1e-2  # the share of the identity in the covariance


class SLDA:
    """Class means (C, d) and the scatter within classes (d, d), summed over the tasks."""

    config = SLDAConfig

    def __init__(self, context: Context, config: SLDAConfig) -> None:
        self.context = context
        self.shrinkage = config.shrinkage
        self.model = context.backbone.load(context.device).requires_grad_(False)
        width = self.model.num_features
        self.means = torch.zeros(0, width, device=context.device)
        self.scatter = torch.zeros(width, width, device=context.device)
        self.images = 0

    def begin_task(self, task: Task) -> None:
        """Wait for the images."""

    @torch.no_grad()
    def train_task(self, task: Task) -> dict[str, float]:
        """Add the task's classes; reports the cross-entropy of its training images."""
        features, labels = self._features(task)
        for label in task.classes:
            own = features[labels == label]
            mean = own.mean(0)
            self.means = torch.cat([self.means, mean[None]])
            self.scatter += (own - mean).T @ (own - mean)
            self.images += len(own)
        return {TRAIN_LOSS: float(F.cross_entropy(self._logits(features), labels))}

    def end_task(self, task: Task) -> None:
        """Nothing is left to do."""

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        """Return logits `(b, C_seen)` of images `(b, c, h, w)`."""
        return self._logits(self.context.features(self.model, images))

    def state(self) -> State:
        """Return the means, the scatter, and the number of images."""
        return State({"means": self.means, "scatter": self.scatter}, values={"images": self.images})

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        self.means = state.tensors["means"].to(self.context.device, copy=True)
        self.scatter = state.tensors["scatter"].to(self.context.device, copy=True)
        self.images = int(str(state.values["images"]))

    def _features(self, task: Task) -> tuple[Tensor, Tensor]:
        generator = make_generator(self.context.seed, "slda", task.index)
        batches = task.train.batches(256, generator, shuffle=False, device=self.context.device)
        pairs = [(self.context.features(self.model, batch.x), batch.y) for batch in batches]
        return torch.cat([x for x, _ in pairs]), torch.cat([y for _, y in pairs])

    def _logits(self, features: Tensor) -> Tensor:
        """Return x^T P m_c - m_c^T P m_c / 2 for each class c, with P the inverse of the shrunk covariance."""
        width = len(self.scatter)
        identity = torch.eye(width, device=self.scatter.device)
        shrunk = (1 - self.shrinkage) * self.scatter / self.images + self.shrinkage * identity
        directions = torch.linalg.solve(shrunk, self.means.T)  # [d, C]
        return features @ directions - (self.means * directions.T).sum(1) / 2
