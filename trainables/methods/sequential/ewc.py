"""Online EWC: hold each weight near its value after the last task, in proportion to a running diagonal Fisher.

Notation: theta are all weights of ViT and classifier, theta* their values after task t - 1, p the softmax.

    loss_t = CE(x, y) + epsilon sum_i Fbar_i (theta_i - theta*_i)^2            (nothing is added at t = 1)
    Fbar  <- gamma Fbar + F_t                                                  (at the end of task t)
    F_t    = 1/n_t sum_{(x, y) in D_t} p(y|x) (d/dtheta log p(y|x))^2          (`fisher: weighted`)

Source: Schwarz et al. 2018, https://arxiv.org/abs/1805.06370, section 3.2 (one decayed running Fisher, the anchor moves
with every task), after Kirkpatrick et al. 2017, https://arxiv.org/abs/1612.00796. The paper names the strength epsilon
and lists the values of the authors' code (mammoth, `models/ewc_on.py`, `e_lambda`). Taken from that code: no 1/2 before
epsilon; plain SGD, the penalty's gradient added to that of the cross-entropy; freshly augmented images; the softmax
over all classes of the sequence. The ground truth is weighted with its own probability, as in the true Fisher
sum_c p_c (d log p_c)^2. Departures: `docs/explanation/methods/ewc.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, grad, vmap

from trainables.backbones.attention import written_out
from trainables.curvature import Curvature, DiagonalCurvature, QuadraticForm
from trainables.data import Task
from trainables.methods.contract import EULER_FACTOR, Context
from trainables.methods.hyperparameters import NonNegative, Share
from trainables.methods.sequential.finetune import CrossEntropyConfig, Finetune
from trainables.methods.sequential.learner import add_to_gradients
from trainables.randomness import make_generator
from trainables.state import State
from trainables.task_vectors.low_rank import dense

Weights = Mapping[str, Tensor]
Value = Callable[[Weights, Tensor, Tensor], Tensor]  # weights, image (c, h, w), label () to scalar

GRADIENT_BYTES = {"cpu": 2**29, "cuda": 2**32}  # of per-example gradients at a time


@dataclass(frozen=True, kw_only=True)
class EWCConfig(CrossEntropyConfig):
    """Hyperparameters of online EWC.

    Attributes:
        fisher: "weighted" squares the gradient of the ground truth's log-probability and weights it with that
            probability, as the authors' code does; "empirical" does not weight it. "true" sums the weighted squares of
            all classes, the Fisher of Kirkpatrick et al., in as many backward passes.
        fisher_classes: Classes in the Fisher's softmax: "all" of the sequence as in the authors' code, those "seen"
            so far, or the "task"'s own, the softmax of the local cross-entropy.
    """

    epsilon: NonNegative  # strength of the penalty
    gamma: Share = 1.0  # share of the old Fisher kept at the end of a task; 1 sums
    fisher: Literal["weighted", "empirical", "true"] = "weighted"
    fisher_classes: Literal["all", "seen", "task"] = "all"


class EWC(Finetune):
    """Online EWC; see the module."""

    config: EWCConfig

    def __init__(self, context: Context, config: EWCConfig) -> None:
        super().__init__(context, config)
        self.curvature: Curvature | None = None  # Fbar, by the names of `weights`; None in the first task
        self.anchor: list[Tensor] = []  # theta*, in the order of `weights`; empty between tasks and in the first task
        self._form: QuadraticForm | None = None  # of Fbar, while there is an anchor

    def begin_task(self, task: Task) -> None:
        """Set the anchor to the weights after the last task."""
        super().begin_task(task)
        if self.curvature is not None:
            self.anchor = [weight.detach().clone() for weight in self.weights.values()]
            self._form = self.curvature.form()

    def train_task(self, task: Task) -> dict[str, float]:
        """Train; reports `train/euler_factor` if there is a penalty and the optimiser is SGD."""
        metrics = super().train_task(task)
        if self._form is not None and self.config.optimizer == "sgd":
            metrics[EULER_FACTOR] = 2 * self.config.lr * self.config.epsilon * self._form.largest_eigenvalue()
        return metrics

    def penalty(self) -> float:
        """Return epsilon sum_i Fbar_i (theta_i - theta*_i)^2, which is 0 at the start of a task."""
        return 0.0 if self._form is None else self.config.epsilon * float(self._form.value(self._moved()))

    @torch.no_grad()
    def add_penalty_gradients(self) -> None:
        """Add 2 epsilon Fbar (theta - theta*) to every gradient."""
        if self._form is not None:
            pull = [dense(each) for each in self._form.product(self._moved())]
            add_to_gradients(self.weights, dict(zip(self.weights, pull, strict=True)), 2 * self.config.epsilon)

    @torch.no_grad()
    def _moved(self) -> list[Tensor]:
        """Return theta - theta*, in the order of `weights`."""
        return list(torch._foreach_sub(list(self.weights.values()), self.anchor))

    def end_task(self, task: Task) -> None:
        """Add the task's Fisher to the running one."""
        self.anchor, self._form = [], None
        curvature = self.task_fisher(task)
        self.curvature = curvature if self.curvature is None else curvature.plus(self.curvature, self.config.gamma)

    def task_fisher(self, task: Task) -> Curvature:
        """Return F_t at the present weights, the mean over the task's training images, each augmented once."""
        weights = {name: weight.detach() for name, weight in self.weights.items()}
        total = {name: torch.zeros_like(weight) for name, weight in weights.items()}
        generator = make_generator(self.context.seed, "fisher", task.index)
        batches = task.train.batches(self.context.batch_size, generator, shuffle=False, device=self.context.device)
        value = partial(self._value, self._classes(task))
        with written_out(self.model):  # vmap does not support all fused kernels
            for batch in batches:
                for labels in self._labels(batch.y, self._classes(task)):
                    add_squared_gradients(total, value, weights, batch.x, labels)
        return DiagonalCurvature(total).mean_over(len(task.train))

    def _classes(self, task: Task) -> range:
        """Return the classes in the Fisher's softmax."""
        scopes = {"all": range(self.context.num_classes), "seen": range(self.seen), "task": task.classes}
        return scopes[self.config.fisher_classes]

    def _labels(self, labels: Tensor, classes: range) -> Iterator[Tensor]:
        """Yield the labels whose squared gradients are summed: the ground truth, or every class for the true Fisher."""
        yield from (torch.full_like(labels, c) for c in classes) if self.config.fisher == "true" else (labels,)

    def _value(self, classes: range, weights: Weights, image: Tensor, label: Tensor) -> Tensor:
        """Return log p(y|x) of one example, times a constant sqrt(p(y|x)) unless the Fisher is empirical."""
        model = {name.removeprefix("model/"): value for name, value in weights.items() if name.startswith("model/")}
        features = functional_call(self.model, model, image[None])[0]
        logits = F.linear(features, weights["heads/weight"], weights["heads/bias"])[classes.start : classes.stop]
        value = -F.cross_entropy(logits, label - classes.start)
        return value if self.config.fisher == "empirical" else value * (value.detach() / 2).exp()

    def state(self) -> State:
        """Return the weights and the running Fisher; theta* equals the weights."""
        return super().state() | State({} if self.curvature is None else self.curvature.tensors()).within("fisher")

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        super().load_state(state)
        kept = state.part("fisher").tensors
        device = self.context.device
        copies = {name: kept[name].to(device, copy=True) for name in self.weights} if kept else {}
        self.curvature = DiagonalCurvature.from_tensors(copies) if copies else None


def add_squared_gradients(total: Weights, value: Value, weights: Weights, x: Tensor, y: Tensor) -> None:
    """Add sum_n (d value(theta, x_n, y_n) / d theta)^2 to a running total, in place.

    `value` is a deterministic function of the weights and one example; x is `(b, c, h, w)`, y `(b,)`. Gradients are
    squared example by example, so the result does not depend on the batches.
    """
    per_example = vmap(grad(value), in_dims=(None, 0, 0))
    for images, labels in zip(*(part.split(examples_at_once(weights)) for part in (x, y)), strict=True):
        for name, gradients in per_example(dict(weights), images, labels).items():
            total[name].add_(gradients.square().sum(0))  # not squared in place: some gradients are views of others


def examples_at_once(weights: Weights) -> int:
    """Return the number of examples whose gradients of all weights fit in `GRADIENT_BYTES`; at least one."""
    size = sum(weight.numel() * weight.element_size() for weight in weights.values())
    (device,) = {weight.device.type for weight in weights.values()}
    return max(1, GRADIENT_BYTES[device] // size)
