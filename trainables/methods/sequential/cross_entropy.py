"""Sequential learners whose loss is a cross-entropy, over the task's classes or over all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from trainables.data import Batch, Task
from trainables.methods.sequential.learner import SequentialConfig, SequentialLearner
from trainables.methods.training import chance_cross_entropy


@dataclass(frozen=True, kw_only=True)
class CrossEntropyConfig(SequentialConfig):
    """Hyperparameters of sequential learners with a cross-entropy.

    Attributes:
        cross_entropy: "local" takes the softmax over the task's classes, as the paper does for all methods; "global"
            over all classes of the sequence, as the authors' public code does.
    """

    cross_entropy: Literal["local", "global"] = "local"


class CrossEntropyLearner(SequentialLearner):
    """A sequential learner that trains on the cross-entropy of the task's images."""

    config: CrossEntropyConfig

    def softmax(self, task: Task) -> range:
        """Return the classes in the softmax of a task's images."""
        return task.classes if self.config.cross_entropy == "local" else range(self.context.num_classes)

    def loss(self, task: Task, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of a batch."""
        return self.cross_entropy(task, self.context.features(self.model, batch.x), batch.y)

    def cross_entropy(self, task: Task, features: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross-entropy for features `(b, d)` and labels `(b,)` of the whole classifier."""
        classes = self.softmax(task)
        return F.cross_entropy(self.head.local_logits(features, classes), labels - classes.start)

    def chance_loss(self, task: Task) -> float:
        """Return the chance cross-entropy."""
        return chance_cross_entropy(len(self.softmax(task)))
