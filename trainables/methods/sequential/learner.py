"""Base of Finetune, EWC, LwF-MC and DER++: the whole ViT and one classifier, trained on one task after the other.

A method gives the loss of a batch, and perhaps a penalty on the weights:

    theta <- optimiser step of lr c_e along  d loss / d theta + d penalty / d theta

The classifier has rows for all classes of the sequence from the start, as in the authors' code (mammoth), so that
logits of different tasks can be compared. Rows of classes outside a loss get no gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from trainables.data import Batch, Task
from trainables.heads import WideHead, first_head
from trainables.methods.contract import Context
from trainables.methods.hyperparameters import Positive
from trainables.methods.training import chance_cross_entropy, fit, gradient_steps
from trainables.metrics import TRAIN_LOSS
from trainables.randomness import make_generator
from trainables.state import State


@dataclass(frozen=True, kw_only=True)
class SequentialConfig:
    """Hyperparameters of all sequential methods."""

    lr: Positive  # at the start
    optimizer: Literal["adamw", "sgd"] = "sgd"  # SGD without momentum; neither has weight decay


class SequentialLearner:
    """A ViT and a classifier that are trained on one task after the other."""

    same_kernels = True  # all full batches launch the same kernels, so a step can be recorded; see `gradient_steps`

    def __init__(self, context: Context, config: SequentialConfig) -> None:
        self.context = context
        self.config = config
        self.model = context.backbone.load(context.device)
        width = self.model.num_features
        self.head = WideHead(width, context.device)
        for index, classes in enumerate(context.task_classes, start=1):
            generator = make_generator(context.seed, "head", index)
            self.head.grow(first_head(classes, width, generator, context.initial_head))
        model = {f"model/{name}": parameter for name, parameter in self.model.named_parameters()}
        # Every weight, by its name in the state; all of them are trained.
        self.weights = model | {"heads/weight": self.head.weight, "heads/bias": self.head.bias}
        self.seen = 0  # classes seen so far, those of the present task included

    def begin_task(self, task: Task) -> None:
        """Count the task's classes among those seen."""
        self.seen = task.classes.stop

    def train_task(self, task: Task) -> dict[str, float]:
        """Train every weight of the ViT and the classifier."""
        parameters = list(self.weights.values())
        kind = torch.optim.AdamW if self.config.optimizer == "adamw" else torch.optim.SGD
        optimizer = kind(parameters, lr=self.config.lr, weight_decay=0.0, fused=True)
        self.context.make_ready(self.model, task)
        step = gradient_steps(
            optimizer,
            partial(self.loss, task),
            adjust=lambda factor: self.add_penalty_gradients(),
            graph_on=self.context.graphs_on if self.same_kernels else None,
        )
        chance_loss = self.chance_loss(task)
        loss = fit(task, self.context, step, parameters, chance_loss=chance_loss, penalty=self.penalty)
        return {TRAIN_LOSS: loss}

    def loss(self, task: Task, batch: Batch) -> Tensor:
        """Return the loss of a batch, without the penalty."""
        raise NotImplementedError

    def chance_loss(self, task: Task) -> float:
        """Return the loss of an untrained model, the scale of divergence."""
        return chance_cross_entropy(len(task.classes))

    def penalty(self) -> float:
        """Return the penalty minus its value at the start of the task."""
        return 0.0

    def add_penalty_gradients(self) -> None:
        """Add the gradient of the penalty to the gradients of the loss."""

    def end_task(self, task: Task) -> None:
        """Do nothing."""

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        """Return logits over all classes seen so far."""
        return self.head.local_logits(self.context.features(self.model, images), range(self.seen))

    def state(self) -> State:
        """Return the state of the model and of the classifier."""
        heads = self.head.state() | State(values={"seen": self.seen})
        return State(self.model.state_dict()).within("model") | heads.within("heads")

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        self.model.load_state_dict(state.part("model").tensors)
        heads = state.part("heads")
        for parameter, name in zip(self.head.parameters(), ("weight", "bias"), strict=True):
            parameter.data.copy_(heads.tensors[name])
        self.seen = int(str(heads.values["seen"]))


def add_to_gradients(weights: Mapping[str, nn.Parameter], direction: Mapping[str, Tensor], factor: float) -> None:
    """Add `factor` times a direction, by weight name, to the gradients in place; skip weights without a gradient."""
    gradients = {name: weight.grad for name, weight in weights.items() if weight.grad is not None}
    with torch.no_grad():
        torch._foreach_add_(list(gradients.values()), [direction[name] for name in gradients], alpha=factor)
