"""Finetune: the whole ViT and a classifier, trained on one task after the other without a penalty. A lower bound.

    loss = CE over the task's classes of (h(f(x)), y)

Joint is the same training on all tasks at once: the upper bound. Both take the schedule, batch size and epochs of the
other methods. Source: the paper, section Experiments, which calls it SGD among the hyperparameters; the local
cross-entropy is applied to it as to the others. The paper gives no optimiser for it, and the authors' code (mammoth,
`models/sgd.py`) defaults to plain SGD. Here AdamW is the default, as for the composable methods; the paper's learning
rates go with `optimizer: sgd`. The authors' code takes the cross-entropy over all classes, past and future:
`cross_entropy: global`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainables.methods.sequential.cross_entropy import CrossEntropyConfig, CrossEntropyLearner


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig(CrossEntropyConfig):
    """Hyperparameters of Finetune and Joint; `cross_entropy` makes no difference for Joint."""

    optimizer: Literal["adamw", "sgd"] = "adamw"


class Finetune(CrossEntropyLearner):
    """Sequential full fine-tuning; see the module."""
