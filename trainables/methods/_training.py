"""The loop that all methods share: epochs, shuffled batches, the cosine schedule, and noticing divergence."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.data import ImageSet
from trainables.errors import DivergedError
from trainables.methods._heads import Heads
from trainables.methods.protocol import Context
from trainables.randomness import make_generator

Step = Callable[[Tensor, Tensor, float], Tensor]


def cosine(epoch: int, epochs: int) -> float:
    """Return c_e, the factor of the learning rate in epoch e (0-based) of K: cos(99 pi e / (200 (K - 1))).

    It falls from 1 to 0.0157; a single epoch has 1. Source: the authors' code (its `CosineSchedule`).
    """
    return 1.0 if epochs == 1 else math.cos(99 * math.pi * epoch / (200 * (epochs - 1)))


def fit(images: ImageSet, context: Context, task: int, step: Step) -> float:
    """Pass over the images `context.epochs` times.

    Args:
        images: Training images.
        context: Epochs, batch size, seed, device.
        task: t; names the generator and any divergence.
        step: Given x `(b, ...)`, y `(b,)` and c_e, does one optimiser step and returns the detached loss.

    Returns:
        Mean loss per example of the last epoch.

    Raises:
        DivergedError: If a loss was not finite. Losses are looked at once per epoch, so that a GPU is never waited for.
    """
    generator = make_generator(context.seed, "finetune", task)
    steps_done, mean = 0, 0.0
    for epoch in range(context.epochs):
        factor = cosine(epoch, context.epochs)
        losses, sizes = [], []
        for x, y in images.batches(context.batch_size, generator, shuffle=True, device=context.device):
            losses.append(step(x, y, factor))
            sizes.append(len(y))
        values = torch.stack(losses).double().cpu()
        if not values.isfinite().all():
            raise DivergedError(task, steps_done + int((~values.isfinite()).nonzero()[0]) + 1)
        steps_done += len(sizes)
        weights = torch.tensor(sizes, dtype=torch.float64)
        mean = float((values * weights).sum() / weights.sum())
    return mean


def local_loss(context: Context, model: nn.Module, heads: Heads, x: Tensor, y: Tensor) -> Tensor:
    """Return the local cross-entropy: over the current task's classes alone.

    Args:
        context: Precision and device.
        model: `(b, c, h, w)` to features `(b, d)`.
        heads: Whose current head is trained.
        x: Images.
        y: Labels relative to the task, `(b,)`.

    Returns:
        Mean over the batch.
    """
    return F.cross_entropy(heads.local_logits(context.features(model, x)), y)


def require_finite(parameters: list[torch.nn.Parameter], context: Context, task: int, examples: int) -> None:
    """Raise if training left a weight that is NaN or infinite; the last step may do so without any loss showing it.

    Raises:
        DivergedError: With the last step of the task.
    """
    if not all(bool(parameter.isfinite().all()) for parameter in parameters):
        raise DivergedError(task, context.epochs * math.ceil(examples / context.batch_size))
