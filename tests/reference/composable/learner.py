"""Fine-tuning and composition: the paper's Algorithm 1, second half, with the pool of task vectors kept whole."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor
from torch.func import functional_call

from tests.reference.composable.optimisation import Adam, Step, one_step
from tests.reference.composable.preconsolidation import PreTrained, Rows, tuned_weights
from tests.reference.composable.regularisers import HeadRegulariser, LayerRegulariser
from tests.reference.composable.task_vectors import Setting, Weights, start, tau_of
from tests.reference.stages import BATCH, batches, drawn
from trainables.data import ImageSet, Task


@dataclass
class Learned:
    """The results of task t."""

    tau: Weights = field(default_factory=dict)
    head: Rows = (torch.empty(0), torch.empty(0))
    steps: list[Step] = field(default_factory=list)
    loss: float = math.nan
    euler: float | None = None


Objective = Callable[[Weights, Tensor, Tensor], tuple[Tensor, Tensor]]  # of a batch: the loss, and the regulariser


class Reference:
    """ITA or IEL over all tasks.

    Args:
        setting: The method and its hyperparameters.
        model: A plain ViT, theta_0.
        tasks: (task, theta_0 after its pre-consolidation), in order.
    """

    def __init__(
        self, setting: Setting, model: VisionTransformer, tasks: list[tuple[Task, PreTrained]], epochs: int, seed: int
    ) -> None:
        self.setting, self.model, self.epochs, self.seed = setting, model, epochs, seed
        self.theta_0 = {name: weight.detach() for name, weight in tuned_weights(model).items()}
        self.pool: list[Learned] = []
        for task, pre_trained in tasks:
            self.pool.append(self.learn(task, pre_trained))

    def features(self, theta: Weights, x: Tensor) -> Tensor:
        return functional_call(self.model, theta, x)

    def composed(self, count: int) -> Weights:
        """Eq. (composition_base) with w_t = 1/T, after `count` tasks."""
        return {
            name: theta_0 + sum(learned.tau[name] for learned in self.pool[:count]) / count
            for name, theta_0 in self.theta_0.items()
        }

    def logits(self, count: int, x: Tensor) -> Tensor:
        """Of the composed model: the heads are concatenated, never averaged."""
        z = self.features(self.composed(count), x)
        weight, bias = (torch.cat(rows) for rows in zip(*(learned.head for learned in self.pool[:count]), strict=True))
        return (z @ weight.T + bias).detach()

    def learn(self, task: Task, pre_trained: PreTrained) -> Learned:
        """Algorithm 1: fine-tune tau_t and the head of task t; the past of the pool stays as it is."""
        s, t = self.setting, task.index
        rows = slice(task.classes[0], task.classes[-1] + 1)
        anchor = (pre_trained.head[0][rows], pre_trained.head[1][rows])
        parameters = start(s, self.theta_0, drawn(self.seed, "tau", t)) | self.first_rows(task, anchor)
        omega = LayerRegulariser(s, t, pre_trained, [learned.tau for learned in self.pool])
        omega_head = HeadRegulariser(s, task, pre_trained, anchor, self.seed)

        def objective(parameters: Weights, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            penalty = omega(tau_of(s, parameters, self.theta_0)) + omega_head(parameters)
            return self.local_loss(parameters, x, y - task.classes[0], t), penalty

        learned = Learned()
        parameters = self.fine_tune(task, parameters, objective, learned)
        learned.tau = {name: tau.detach() for name, tau in tau_of(s, parameters, self.theta_0).items()}
        learned.head = (parameters["head.weight"].detach(), parameters["head.bias"].detach())
        learned.euler = omega.curvature(self.theta_0) if s.regularise == "all" and not s.coupled else None
        return learned

    def fine_tune(self, task: Task, parameters: Weights, objective: Objective, learned: Learned) -> Weights:
        """K epochs; in epoch e (from 0) the step size is c_e = cos(99 pi e / (200 (K - 1)))."""
        generator, adam = drawn(self.seed, "finetune", task.index), Adam()
        for epoch in range(self.epochs):
            factor = math.cos(99 * math.pi * epoch / (200 * (self.epochs - 1)))
            total = 0.0
            for x, y in batches(task.train, BATCH, generator, shuffle=True):
                loss, penalty = objective(parameters, x, y)
                step = one_step(self.setting, parameters, loss, penalty, factor, adam)
                parameters = {name: value.clone().requires_grad_() for name, value in step.after.items()}
                learned.steps.append(step)
                total += loss.item() * len(y)
            learned.loss = total / len(task.train.labels)  # of the last epoch, without the regulariser
        return parameters

    def first_rows(self, task: Task, anchor: Rows) -> Weights:
        """The head starts at its anchor h0_t; in the authors' code at random."""
        weight, bias = anchor
        if self.setting.official:
            generator = drawn(self.seed, "head", task.index)
            weight = torch.nn.init.trunc_normal_(torch.empty_like(weight), std=0.02, generator=generator)
            bias = torch.zeros_like(bias)
        return {"head.weight": weight.clone().requires_grad_(), "head.bias": bias.clone().requires_grad_()}

    def local_loss(self, parameters: Weights, x: Tensor, y: Tensor, t: int) -> Tensor:
        """The local cross-entropy of theta_0 + tau_t (ITA), or of theta_0 + (1/t) sum_{s<=t} tau_s (IEL)."""
        tau = tau_of(self.setting, parameters, self.theta_0)
        if self.setting.ensemble:
            tau = {name: sum([past.tau[name] for past in self.pool], tau[name]) / t for name in tau}
        z = self.features({name: self.theta_0[name] + tau[name] for name in tau}, x)
        return F.cross_entropy(z @ parameters["head.weight"].T + parameters["head.bias"], y)


def metrics_row(reference: Reference, matrix: list[list[float]], count: int, images: list[int]) -> dict[str, float]:
    """The row after `count` tasks, of accuracies a[i][j] on the evaluation images of task j after task i."""
    last, total = matrix[count - 1], len(images)
    row = {
        "task": float(count),
        "test/average_accuracy": sum(last) / count,
        "train/loss": reference.pool[count - 1].loss,
    }
    row |= {f"test/accuracy/task_{j + 1}": last[j] for j in range(count)}
    if reference.pool[count - 1].euler is not None:
        row["train/euler_factor"] = reference.pool[count - 1].euler
    if count == total:
        drops = [max(matrix[i][j] for i in range(j, total - 1)) - last[j] for j in range(total - 1)]
        row |= {"test/final_accuracy": sum(last) / total, "test/forgetting": sum(drops) / (total - 1)}
        row["test/average_incremental_accuracy"] = sum(sum(seen) / len(seen) for seen in matrix) / total
        row["test/pooled_accuracy"] = sum(a * n for a, n in zip(last, images, strict=True)) / sum(images)
    return row


def accuracies(reference: Reference, count: int, evaluation: tuple[ImageSet, ...]) -> list[float]:
    """Class-incremental: the largest of the logits of all classes seen so far, percent of each task's images."""
    found = []
    for images in evaluation[:count]:
        assert isinstance(images.images, Tensor)
        guess = reference.logits(count, images.transform(images.images, None)).argmax(1)
        found.append(100 * int((guess == images.labels).sum()) / len(images.labels))
    return found
