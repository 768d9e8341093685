"""Linear probing of the new head rows, and alignment of all rows, on the frozen backbone.

The classifier of theta_0 is h0: weight `(C, d)`, bias `(C,)`, its rows in class order, those of task t appended at t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.heads import Head
from trainables.preconsolidation.mixtures import Mixture

ALIGNMENT_BATCH = 128
ALIGNMENT_EPOCHS = (10, 5)  # first task; more for each task after it
ALIGNMENT_LR = 0.01
TEMPERATURE = 0.1
NORM_FLOOR = 1e-7


def linear_probe(
    head: Head, epochs: int, lr: float, draw_features: Callable[[], Iterable[tuple[Tensor, Tensor]]]
) -> Head:
    """Return the rows of one task, trained with local cross-entropy and SGD without momentum, decay or schedule.

    They start at `head`, `(c, d)` and `(c,)`. `draw_features` is called once per epoch and yields features `(b, d)` and
    labels `(b,)` within the task.
    """
    weight, bias = (part.clone().requires_grad_() for part in head)
    optimizer = torch.optim.SGD([weight, bias], lr=lr)
    for _ in range(epochs):
        for features, labels in draw_features():
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(F.linear(features, weight, bias), labels).backward()
            optimizer.step()
    return weight.detach(), bias.detach()


def alignment_gradient(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the gradient `(b, C)`, by the logits, of the mean cross-entropy of logits over 0.1 times their own norm.

    With logits l, z = l / (0.1 |l|) and g = softmax(z) - y, it is (g - (g . l) l / |l|^2) / (0.1 |l| b).

    Source: the loss is of Zhang et al. 2023 (SLCA), https://arxiv.org/abs/2303.05118, as the authors' code has it: the
    norm is taken over the logits of all classes, plus 1e-7, and the logits are used unnormalised afterwards.
    """
    lengths = torch.linalg.vector_norm(logits, dim=1, keepdim=True)
    norms = lengths + NORM_FLOOR
    scaled = logits / norms
    gradient = (scaled / TEMPERATURE).softmax(1)
    gradient.scatter_add_(1, labels[:, None], torch.full_like(norms, -1))
    along = (gradient * scaled).sum(1, keepdim=True)
    gradient.addcmul_(along, logits / lengths.clamp_min(NORM_FLOOR), value=-1)
    return gradient / (TEMPERATURE * len(labels) * norms)


def align(
    head: Head, mixtures: list[Mixture], task: int, per_class: int, device: torch.device, generator: torch.Generator
) -> Head:
    """Return all rows, on the CPU, fine-tuned by plain SGD on features drawn from the mixtures of all classes.

    Row c of the head, `(C, d)` and `(C,)`, belongs to `mixtures[c]`. There are 10 + 5 (t - 1) epochs, each with N =
    `per_class` fresh draws of every class. The step size follows half a cosine.
    """
    epochs = ALIGNMENT_EPOCHS[0] + ALIGNMENT_EPOCHS[1] * (task - 1)
    weight, bias = (part.clone().to(device) for part in head)
    for epoch in range(epochs):
        lr = ALIGNMENT_LR * 0.5 * (1 + math.cos(math.pi * epoch / epochs))
        features, labels = sample_features(mixtures, per_class, generator)
        order = torch.randperm(len(labels), generator=generator)
        features, labels = features.index_select(0, order).to(device), labels[order].to(device)
        for x, y in zip(features.split(ALIGNMENT_BATCH), labels.split(ALIGNMENT_BATCH), strict=True):
            gradient = alignment_gradient(F.linear(x, weight, bias), y)
            weight.addmm_(gradient.T, x, alpha=-lr)
            bias.sub_(gradient.sum(0), alpha=lr)
    return weight.cpu(), bias.cpu()


def sample_features(mixtures: list[Mixture], per_class: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw features of every class: `(C * per_class, d)` and labels, classes in order."""
    features = torch.cat([mixture.sample(per_class, generator) for mixture in mixtures])
    return features, torch.arange(len(mixtures)).repeat_interleave(per_class)
