"""SEED: at most K experts; one expert learns each task, and all experts remember its classes as Gaussians.

Task t <= K: expert t starts as a copy of expert 1 and is trained with a fresh head on the local cross-entropy CE.
Task t > K: the new classes are fitted in every expert. The expert in which they are furthest apart,
argmax_k mean_ij KL(N_i^k || N_j^k), is trained on (1 - alpha) CE + alpha MSE(features, those before the task).
The head is discarded. Then every expert gets a Gaussian for each class of the task; those of past tasks stay as they
are. With K_c the experts that know class c (expert k knows the tasks from k on), an image x belongs to the largest

    (1 / |K_c|) sum_{k in K_c} softmax_c(log N(x_k; mu_c^k, Sigma_c^k) / tau),  the softmax over all that k knows.

Source: Rypesc et al., ICLR 2024, https://arxiv.org/abs/2401.10191; github.com/grypesc/SEED (src/approach/seed.py).
Follows the code: Gaussians of unaugmented images and their mirror images; the gradient clipped at norm 1; alpha .99,
tau 3 and 5 experts (its scripts); the expert's bottleneck, there the width of its ResNets before the last layer.
Departs from it: classes that an expert does not know are left out of its softmax (there they have log N = -1e8, which
wins over densities below); unchanged experts are not asked for the same features twice; no weight decay, and the
schedule and epochs of the other methods (there 200 and then 100 epochs in steps); no batch norm, so nothing has modes.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from trainables.data import Batch, Task
from trainables.data.few_images import OwnImages, Unsuited
from trainables.errors import DivergedError, InputError
from trainables.heads import Heads, new_head
from trainables.methods.contract import Context, Scenario
from trainables.methods.hyperparameters import Positive, PositiveCount
from trainables.methods.seed.expert import Expert, class_features
from trainables.methods.seed.gaussians import Gaussians, fit_gaussians, joined, unpacked
from trainables.methods.training import fit, gradient_steps
from trainables.metrics import TRAIN_LOSS
from trainables.randomness import make_generator
from trainables.state import JSON, State

MOMENTUM = 0.9  # of SGD, in the authors' code
COPIES_IN_TRAINING = 4  # gradients, two moments, and the frozen copy for the feature distance


@dataclass(frozen=True, kw_only=True)
class SEEDConfig:
    """Hyperparameters of SEED."""

    lr: Positive  # at the start
    experts: PositiveCount = 5  # K, at most
    features: PositiveCount = 64  # S, the width of the bottleneck
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.99  # weight of the distance, against the cross-entropy
    tau: Positive = 3.0  # temperature of the softmax over log densities
    flip: bool = True  # Gaussians count every image a second time, mirrored left to right
    clip: Positive = 1.0  # limit of the gradient's norm
    optimizer: Literal["adamw", "sgd"] = "adamw"  # SGD has momentum 0.9; neither has weight decay


def unsuited(config: SEEDConfig, images: OwnImages) -> Iterator[Unsuited]:
    """Say whether a class has too few images for a covariance of the bottleneck's width."""
    seen = None if images.per_class is None else images.per_class * (2 if config.flip else 1)
    if seen is not None and seen <= config.features:
        narrow = 1 << max(seen // 2, 2).bit_length() - 1
        reason = f"{config.features} is as wide as {seen} images of a class or more, so their covariance is singular"
        yield Unsuited("features", reason, f"--set features={narrow} suits their number")


def validate(config: SEEDConfig, scenario: Scenario) -> None:
    """Refuse, by an InputError, a bottleneck wider than the backbone, and more experts than fit in memory."""
    shape = scenario.backbone.shape
    if config.features > shape.width:
        raise InputError(f"seed: features must be at most the backbone's width, {shape.width}, got {config.features}")
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    allowed = there // (4 * shape.parameters) - COPIES_IN_TRAINING
    if min(config.experts, scenario.num_tasks) > allowed:
        raise InputError(
            f"seed: experts must be at most {max(allowed, 0)}, which fill this machine's {there / 2**30:.1f} GiB of"
            f" memory, got {config.experts}"
        )


class SEED:
    """SEED; see the module."""

    def __init__(self, context: Context, config: SEEDConfig) -> None:
        self.context = context
        self.config = config
        self.experts: list[Expert] = []
        self.trained_at: list[int] = []  # the last task that each expert was trained on
        self.known: list[list[Gaussians]] = []  # by expert, then by task from the expert's first
        self.head = Heads(config.features, context.device)
        self._current = 0  # expert of the current task
        self._before: Expert | None = None  # frozen copy from before the task, if t > K
        self._fits: list[Gaussians | None] = []  # by expert, of the task's classes; None for the trained one

    def begin_task(self, task: Task) -> None:
        """Add an expert or choose one, and begin the task's temporary head."""
        if len(self.experts) < self.config.experts:
            self._add_expert()
            self.trained_at.append(task.index)
            self.known.append([])
            self._fits = [None] * len(self.experts)
        else:
            fits = self._fit_gaussians(self.experts, task)
            self._current = int(torch.stack([each.overlap() for each in fits]).argmax())
            self._before = copy.deepcopy(self.experts[self._current])
            self.trained_at[self._current] = task.index
            self._fits = [None if k == self._current else each for k, each in enumerate(fits)]
        self.experts[self._current].requires_grad_(True)
        generator = make_generator(self.context.seed, "head", task.index)
        self.head.begin(new_head(len(task.classes), self.config.features, generator))

    def _add_expert(self) -> None:
        """Append a copy of the first expert; the first is the backbone with a fresh bottleneck."""
        if self.experts:
            expert = copy.deepcopy(self.experts[0])
        else:
            generator = make_generator(self.context.seed, "bottleneck", 1)
            expert = Expert(self.context.backbone.load(self.context.device), self.config.features, generator)
        self.experts.append(expert)
        self._current = len(self.experts) - 1

    def train_task(self, task: Task) -> dict[str, float]:
        """Train the chosen expert and the task's head."""
        parameters = [*self.experts[self._current].parameters(), *self.head.current]
        optimizer = self._optimizer(parameters)

        def loss(batch: Batch) -> Tensor:
            return self._loss(batch.x, batch.y - task.classes.start)

        step = gradient_steps(optimizer, loss, clip_norm=self.config.clip)
        return {TRAIN_LOSS: fit(task, self.context, step, parameters)}

    def _optimizer(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        if self.config.optimizer == "adamw":
            return torch.optim.AdamW(parameters, lr=self.config.lr, weight_decay=0.0, fused=True)
        return torch.optim.SGD(parameters, lr=self.config.lr, momentum=MOMENTUM, fused=True)

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the local cross-entropy; from task K + 1 on, its mean with the distance to the old features."""
        features = self.experts[self._current].features(self.context, x)
        loss = F.cross_entropy(self.head.local_logits(features), y)
        if self._before is None:
            return loss
        with torch.no_grad():
            old = self._before.features(self.context, x)
        return (1 - self.config.alpha) * loss + self.config.alpha * F.mse_loss(features, old)

    def end_task(self, task: Task) -> None:
        """Discard the head and give every expert a Gaussian for each class of the task."""
        self.experts[self._current].requires_grad_(False)
        self.head.current, self._before = [], None
        missing = [expert for expert, each in zip(self.experts, self._fits, strict=True) if each is None]
        found = iter(self._fit_gaussians(missing, task))
        for known, each in zip(self.known, self._fits, strict=True):
            known.append(next(found) if each is None else each)
        self._fits = []

    def _fit_gaussians(self, experts: list[Expert], task: Task) -> list[Gaussians]:
        """Return the Gaussians of the task's classes from each of some experts."""
        features = class_features(experts, self.context, task.unaugmented, task.classes, flip=self.config.flip)
        try:
            return [fit_gaussians(each) for each in features]
        except ArithmeticError as error:
            steps = self.context.epochs * math.ceil(len(task.train) / self.context.batch_size)
            raise DivergedError(task.index, steps, str(error)) from error

    @torch.inference_mode()
    def predict(self, images: Tensor) -> Tensor:
        """Return the mean of the experts' posteriors for all classes seen so far: `(b, c, h, w)` to `(b, C)`."""
        total = images.new_zeros(len(images), sum(map(len, self.known[0])))
        experts = torch.zeros_like(total[0])
        for expert, known in zip(self.experts, self.known, strict=True):
            densities = joined(known).log_density(expert.features(self.context, images))
            first = total.shape[1] - densities.shape[1]
            total[:, first:] += (densities / self.config.tau).softmax(1)
            experts[first:] += 1
        return total / experts

    def state(self) -> State:
        """Return experts and Gaussians, each written once; an expert that learns again gets a new name."""
        constant: dict[str, Tensor] = {}
        for k, (expert, t) in enumerate(zip(self.experts, self.trained_at, strict=True)):
            constant |= {f"experts/{k}/{t}/{name}": value for name, value in expert.state_dict().items()}
            for number, each in enumerate(self.known[k]):
                means, triangles = each.packed()
                constant |= {f"gaussians/{k}/{number}/means": means, f"gaussians/{k}/{number}/factors": triangles}
        trained_at: JSON = list(self.trained_at)
        counts: JSON = [len(known) for known in self.known]
        return State(constant=constant, values={"trained_at": trained_at, "tasks_known": counts})

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        trained_at, counts = (state.values[name] for name in ("trained_at", "tasks_known"))
        assert isinstance(trained_at, list) and isinstance(counts, list)
        self.trained_at = [int(str(t)) for t in trained_at]
        for k, (t, count) in enumerate(zip(self.trained_at, counts, strict=True)):
            self._add_expert()
            self.experts[k].load_state_dict(state.part(f"experts/{k}/{t}").constant)
            self.experts[k].requires_grad_(False)
            parts = (state.part(f"gaussians/{k}/{number}").constant for number in range(int(str(count))))
            on_device = ([part[name].to(self.context.device) for name in ("means", "factors")] for part in parts)
            self.known.append([unpacked(*each) for each in on_device])
