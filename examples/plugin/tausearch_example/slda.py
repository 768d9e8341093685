"""SLDA: linear discriminant analysis on the frozen backbone's features, with one covariance for all classes.

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
from trainables.preconsolidation import Basis
from trainables.state import State


@dataclass(frozen=True, kw_only=True)
class SLDAConfig:
    """Hyperparameters of SLDA."""

    shrinkage: Annotated[float, Field(gt=0, le=1)] = 1e-2  # the share of the identity in the covariance


@dataclass(frozen=True)
class ClassStatistics:
    """What no hyperparameter changes, so all trials share it: the statistics of a task's training images.

    The tensors of a task are `means` (c, d) of its classes, `scatter` (d, d) within classes and `images` (), the last
    two summed over the tasks so far.
    """

    @torch.no_grad()
    def prepare(self, task: Task, previous: dict[str, Tensor] | None, basis: Basis) -> dict[str, Tensor]:
        """Take the statistics of a task."""
        batches = task.unaugmented.batches(256, None, shuffle=False, device=basis.device)
        pairs = [(basis.theta_0(batch.x), batch.y) for batch in batches]
        features, labels = (torch.cat(parts) for parts in zip(*pairs, strict=True))
        means = torch.stack([features[labels == label].mean(0) for label in task.classes])
        centred = features - means[labels - task.classes.start]
        scatter, images = (centred.T @ centred).cpu(), torch.tensor(len(features))
        if previous is not None:
            scatter, images = scatter + previous["scatter"], images + previous["images"]
        return {"means": means.cpu(), "scatter": scatter, "images": images}

    def read(self, tensors: dict[str, Tensor], task: Task, previous: dict[str, Tensor] | None) -> dict[str, Tensor]:
        """Return the tensors as they are."""
        return tensors


class SLDA:
    """One direction (d,) and one bias per class."""

    config = SLDAConfig

    def __init__(self, context: Context, config: SLDAConfig) -> None:
        self.context = context
        self.shrinkage = config.shrinkage
        self.statistics = context.prepare(ClassStatistics())
        self.model = context.backbone.load(context.device).requires_grad_(False)
        self.means = torch.zeros(0, self.model.num_features)
        self.weight, self.bias = self.means, torch.zeros(0)

    def begin_task(self, task: Task) -> None:
        """Put the task's classes beside the others: w_c = P m_c, b_c = -m_c^T P m_c / 2, P the inverse covariance."""
        found = self.statistics(task)
        self.means = torch.cat([self.means, found["means"]])
        identity = torch.eye(len(found["scatter"]))
        covariance = (1 - self.shrinkage) * found["scatter"] / found["images"] + self.shrinkage * identity
        directions = torch.linalg.solve(covariance, self.means.T).T  # [C, d]
        self.weight = directions.to(self.context.device)
        self.bias = -(directions * self.means).sum(1).to(self.context.device) / 2

    @torch.no_grad()
    def train_task(self, task: Task) -> dict[str, float]:
        """Train nothing; report the cross-entropy on the task's images."""
        batches = task.unaugmented.batches(256, None, shuffle=False, device=self.context.device)
        losses = [F.cross_entropy(self.predict(batch.x), batch.y, reduction="sum") for batch in batches]
        return {TRAIN_LOSS: float(sum(losses)) / len(task.unaugmented)}

    def end_task(self, task: Task) -> None:
        """Nothing is left to do."""

    @torch.no_grad()
    def predict(self, images: Tensor) -> Tensor:
        """Return logits `(b, C_seen)` of images `(b, c, h, w)`."""
        return F.linear(self.context.features(self.model, images), self.weight, self.bias)

    def state(self) -> State:
        """Return the means and the classifier."""
        return State({"means": self.means, "weight": self.weight, "bias": self.bias})

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        self.means = state.tensors["means"].to("cpu", copy=True)
        self.weight, self.bias = (state.tensors[name].to(self.context.device, copy=True) for name in ("weight", "bias"))
