"""Linear probing of the new head rows and alignment of all of them, on the frozen backbone.

The classifier of theta_0 is h0: weight `(C, d)`, bias `(C,)`, its rows in class order, those of task t appended at t.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.preconsolidation.mixtures import Mixture

HEAD_STD = 0.02  # timm's start for classifier weights
ALIGNMENT_BATCH = 128
ALIGNMENT_EPOCHS = (10, 5)  # first task; more for each task after it
ALIGNMENT_LR = 0.01
TEMPERATURE = 0.1

Head = tuple[Tensor, Tensor]


def new_head(classes: int, width: int, generator: torch.Generator) -> Head:
    """Return fresh head rows: weight `(classes, width)`, truncated normal with standard deviation 0.02; zero bias."""
    weight = torch.empty(classes, width)
    torch.nn.init.trunc_normal_(weight, std=HEAD_STD, generator=generator)
    return weight, torch.zeros(classes)


def linear_probe(
    head: Head, epochs: int, lr: float, draw_features: Callable[[], Iterable[tuple[Tensor, Tensor]]]
) -> Head:
    """Train the rows of one task with plain SGD and local cross-entropy.

    Args:
        head: Starting rows, `(c, d)` and `(c,)`.
        epochs: Passes; `epochs_pre`.
        lr: Step size; `lr_pre`. No momentum, decay or schedule.
        draw_features: Called once per epoch; yields features `(b, d)` and labels `(b,)` relative to the task.

    Returns:
        The trained rows.
    """
    weight, bias = (part.clone().requires_grad_() for part in head)
    optimizer = torch.optim.SGD([weight, bias], lr=lr)
    for _ in range(epochs):
        for features, labels in draw_features():
            _step(optimizer, F.cross_entropy(F.linear(features, weight, bias), labels))
    return weight.detach(), bias.detach()


def alignment_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy of logits divided by 0.1 times their own norm: `(b, C)`, `(b,)` to a scalar.

    Source: Zhang et al. 2023 (SLCA), https://arxiv.org/abs/2303.05118, as the authors' code has it: the norm is taken
    over the logits of all classes, and the logits are used unnormalised afterwards.
    """
    norms = logits.norm(dim=1, keepdim=True) + 1e-7
    return F.cross_entropy(logits / (TEMPERATURE * norms), labels)


def align(
    head: Head, mixtures: list[Mixture], task: int, per_class: int, device: torch.device, generator: torch.Generator
) -> Head:
    """Fine-tune all rows on features drawn from the mixtures of all classes seen so far.

    Args:
        head: All rows, `(C, d)` and `(C,)`; row c belongs to `mixtures[c]`.
        mixtures: One per class.
        task: t; the number of epochs is 10 + 5 (t - 1), each with fresh draws, the step size following half a cosine.
        per_class: N draws per class and epoch.
        device: Where to compute.
        generator: Source of draws and order.

    Returns:
        The aligned rows.
    """
    epochs = ALIGNMENT_EPOCHS[0] + ALIGNMENT_EPOCHS[1] * (task - 1)
    weight, bias = (part.clone().to(device).requires_grad_() for part in head)
    optimizer = torch.optim.SGD([weight, bias], lr=ALIGNMENT_LR)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for _ in range(epochs):
        features, labels = sample_features(mixtures, per_class, generator)
        for rows in torch.randperm(len(labels), generator=generator).split(ALIGNMENT_BATCH):
            logits = F.linear(features[rows].to(device), weight, bias)
            _step(optimizer, alignment_loss(logits, labels[rows].to(device)))
        schedule.step()
    return weight.detach().cpu(), bias.detach().cpu()


def sample_features(mixtures: list[Mixture], per_class: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw features of every class: `(C * per_class, d)` and labels, classes in order."""
    features = torch.cat([mixture.sample(per_class, generator) for mixture in mixtures])
    return features, torch.arange(len(mixtures)).repeat_interleave(per_class)


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
