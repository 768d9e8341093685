"""Finetune: the whole ViT and a classifier, trained on one task after the other without a penalty. A lower bound.

    loss = CE over the task's classes of (h(f(x)), y)

Joint is the same training on all tasks at once: the upper bound. Both take the schedule, batch size and epochs of the
other methods. Source: the paper, section Experiments, which calls it SGD among the hyperparameters; the local
cross-entropy is applied to it as to the others. The paper gives no optimiser for it, and the authors' code (mammoth,
`models/sgd.py`) defaults to plain SGD. Here AdamW is the default, as for the composable methods; the paper's learning
rates go with `optimizer: sgd`. The authors' code takes the cross-entropy over all classes, past and future:
`cross_entropy: global`.

EWC and DER++ add a penalty and rehearsal to the same loss.
"""

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
    """Hyperparameters of sequential learners with a cross-entropy."""

    cross_entropy: Literal["local", "global"] = "local"  # softmax over the task's classes, or over all of the sequence


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig(CrossEntropyConfig):
    """Hyperparameters of Finetune and Joint; `cross_entropy` makes no difference for Joint."""

    optimizer: Literal["adamw", "sgd"] = "adamw"


class Finetune(SequentialLearner):
    """Sequential full fine-tuning; see the module."""

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
