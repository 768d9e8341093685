"""The loop that all methods share: epochs, shuffled batches, the cosine schedule, and noticing divergence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.data import Batch, Task
from trainables.errors import DivergedError
from trainables.heads import Heads
from trainables.methods.contract import Context
from trainables.randomness import make_generator
from trainables.state import Epoch

Step = Callable[[Batch, float], Tensor]  # a batch and c_e to the detached loss
Schedule = Literal["cosine", "late", "constant"]
Batches = Callable[[int], Iterable[Batch]]  # an epoch, 0-based, to what it passes over
BLOWN_UP = 100.0  # times the loss of guessing
GUESSING_BINARY = math.log(2)  # mean over classes of the binary cross-entropy, of logits that are all zero


def guessing_cross_entropy(classes: int) -> float:
    """Return the cross-entropy of guessing among so many classes, ln C; one class counts as two."""
    return math.log(max(2, classes))


def guessing_square(classes: int, target: float = 1.0) -> float:
    """Return the square loss of outputs that are all zero, `target`^2 / C.

    Args:
        classes: Number of classes, C, over which the squares are averaged.
        target: What the output of the true class shall be; that of the others is 0.
    """
    return target**2 / classes


def cosine(epoch: int, epochs: int) -> float:
    """Return c_e, the factor of the learning rate in epoch e (0-based) of K: cos(99 pi e / (200 (K - 1))).

    It falls from 1 to 0.0157; a single epoch has 1. Source: the authors' code (its `CosineSchedule`).
    """
    return 1.0 if epochs == 1 else math.cos(99 * math.pi * epoch / (200 * (epochs - 1)))


def late_cosine(epoch: int, epochs: int) -> float:
    """Return the cosine of the epoch before; the first two epochs have 1, and none has the last value.

    Source: the code of the authors of CODA-Prompt, and that of InfLoRA's, which has the same class. The constructor of
    `CosineSchedule` takes a step and then sets back the count that it has raised: the second epoch is the first again.
    """
    return cosine(max(epoch - 1, 0), epochs)


SCHEDULES: dict[Schedule, Callable[[int, int], float]] = {
    "cosine": cosine,
    "late": late_cosine,
    "constant": lambda epoch, epochs: 1.0,
}


def shuffled_batches(task: Task, context: Context) -> Batches:
    """Return the batches that `fit` passes over by default: augmented training images, in a new order every epoch.

    Args:
        task: The task; its index names the generator of order and augmentation.
        context: The method's context, which gives batch size, seed and device.

    Returns:
        The function that returns an epoch's batches; to be called once per epoch, in order.
    """
    generator = make_generator(context.seed, "finetune", task.index)
    return lambda epoch: task.train.batches(context.batch_size, generator, shuffle=True, device=context.device)


def fit(
    task: Task,
    context: Context,
    step: Step,
    *,
    batches: Batches | None = None,
    schedule: Schedule = "cosine",
    guessing: float | None = None,
    penalty: Callable[[], float] | None = None,
) -> float:
    """Pass over a task's training images `context.epochs` times.

    Args:
        task: The task; any divergence is told with its index.
        context: The method's context, which gives epochs, batch size, seed and device.
        step: Function that, given a batch and the schedule's factor, c_e, does one optimiser step and returns the
            detached loss.
        batches: What an epoch passes over, at least one batch; by default `shuffled_batches`.
        schedule: Which factor an epoch has; see `SCHEDULES`.
        guessing: Loss of an untrained model, the scale of divergence; by default the cross-entropy over the task's
            classes.
        penalty: The regulariser's value beyond its value at the start of the task; None where there is no regulariser.

    Returns:
        Mean loss per example of the last epoch, without the regulariser.

    Raises:
        DivergedError: If a loss was not finite, or the regularised loss after an epoch is `BLOWN_UP` times that of
            guessing. Losses are looked at once per epoch, so that a GPU is never waited for.
    """
    batches = batches or shuffled_batches(task, context)
    scale = guessing_cross_entropy(len(task.classes)) if guessing is None else guessing
    steps_done, mean = 0, 0.0
    for epoch in range(context.epochs):
        factor = SCHEDULES[schedule](epoch, context.epochs)
        losses, sizes = [], []
        for batch in batches(epoch):
            losses.append(step(batch, factor))
            sizes.append(len(batch.y))
        values = torch.stack(losses).double().cpu()
        if not values.isfinite().all():
            raise DivergedError(task.index, steps_done + int((~values.isfinite()).nonzero()[0]) + 1)
        steps_done += len(sizes)
        weights = torch.tensor(sizes, dtype=torch.float64)
        mean = float((values * weights).sum() / weights.sum())
        _require_bounded(mean + (penalty() if penalty else 0.0), scale, task, steps_done)
        context.on_epoch(Epoch(task.index, epoch + 1, context.epochs))
    return mean


def _require_bounded(loss: float, guessing: float, task: Task, step: int) -> None:
    """Raise if a regularised loss is far above what it was before training, at most about that of guessing."""
    if not loss <= BLOWN_UP * guessing:  # NaN is not, either
        raise DivergedError(task.index, step, f"regularised loss of {loss:.3g} (guessing has {guessing:.2g})")


def local_loss(context: Context, model: nn.Module, heads: Heads, x: Tensor, y: Tensor) -> Tensor:
    """Return the local cross-entropy: over the current task's classes alone.

    Args:
        context: The method's context, which gives precision and device.
        model: The backbone, from `(b, c, h, w)` to features `(b, d)`.
        heads: The heads, of which the current one is trained.
        x: The images, `(b, c, h, w)`.
        y: Labels relative to the task, `(b,)`.

    Returns:
        The mean cross-entropy over the batch.
    """
    return F.cross_entropy(heads.local_logits(context.features(model, x)), y)


def require_finite(parameters: list[torch.nn.Parameter], context: Context, task: Task) -> None:
    """Raise if training left a weight that is NaN or infinite; the last step may do so without any loss showing it.

    Raises:
        DivergedError: If a weight is not finite; its step is the task's last, counted over `shuffled_batches`.
    """
    if not all(bool(parameter.isfinite().all()) for parameter in parameters):
        raise DivergedError(task.index, context.epochs * math.ceil(len(task.train) / context.batch_size))
