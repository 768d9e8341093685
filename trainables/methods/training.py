"""The training loop of all methods: epochs, shuffled batches, learning-rate schedules and divergence checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.data import Batch, Task
from trainables.errors import DivergedError
from trainables.heads import Heads
from trainables.methods.contract import Context
from trainables.methods.cuda_graphs import GraphedStep
from trainables.randomness import make_generator
from trainables.state import Epoch

Step = Callable[[Batch, float], Tensor]  # batch and c_e to detached loss
Schedule = Literal["cosine", "late", "constant"]
Batches = Callable[[int], Iterable[Batch]]  # epoch (0-based) to batches
BLOWN_UP = 100.0  # times the chance loss
CHANCE_BINARY_CROSS_ENTROPY = math.log(2)  # mean over classes, at zero logits


def chance_cross_entropy(classes: int) -> float:
    """Return ln C, the cross-entropy of a uniform guess among C classes; one class counts as two."""
    return math.log(max(2, classes))


def chance_square_loss(classes: int, target: float = 1.0) -> float:
    """Return `target`^2 / C, the mean square loss of zero outputs over C classes, whose true one aims at `target`."""
    return target**2 / classes


def cosine(epoch: int, epochs: int) -> float:
    """Return c_e, the learning rate's factor in epoch e (0-based) of K: cos(99 pi e / (200 (K - 1))).

    It falls from 1 to 0.0157; a single epoch has 1. Source: the authors' code (its `CosineSchedule`).
    """
    return 1.0 if epochs == 1 else math.cos(99 * math.pi * epoch / (200 * (epochs - 1)))


def late_cosine(epoch: int, epochs: int) -> float:
    """Return the cosine of the epoch before; the first two epochs have 1, and no epoch has the last value.

    Source: the authors' code of CODA-Prompt and of InfLoRA, which share the class. The constructor of `CosineSchedule`
    takes a step and then resets the step count, so the second epoch repeats the first.
    """
    return cosine(max(epoch - 1, 0), epochs)


def warm_cosine(step: int, steps: int, warm_up: float) -> float:
    """Return the factor of the learning rate at a step (0-based) of a task: a linear rise, then half a cosine to 0.

    The rise takes the share `warm_up` of all steps, rounded. Source: mammoth, models/tak_utils/utils.py (`cosine_lr`).
    """
    rise = round(warm_up * steps)
    if step < rise:
        return (step + 1) / rise
    return (1 + math.cos(math.pi * (step - rise) / (steps - rise))) / 2


SCHEDULES: dict[Schedule, Callable[[int, int], float]] = {
    "cosine": cosine,
    "late": late_cosine,
    "constant": lambda epoch, epochs: 1.0,
}


def shuffled_batches(task: Task, context: Context) -> Batches:
    """Return `fit`'s default batches: augmented training images in a new order every epoch.

    Call the returned function once per epoch, in order: its generator is the task's own.
    """
    generator = make_generator(context.seed, "finetune", task.index)
    return lambda epoch: task.train.batches(context.batch_size, generator, shuffle=True, device=context.device)


def fit(
    task: Task,
    context: Context,
    step: Step,
    parameters: Sequence[Tensor] = (),
    *,
    batches: Batches | None = None,
    schedule: Schedule = "cosine",
    chance_loss: float | None = None,
    penalty: Callable[[], float] | None = None,
) -> float:
    """Pass over a task's training images `context.epochs` times.

    Args:
        task: The task; its index is part of the divergence error.
        context: Gives epochs, batch size, seed and device.
        step: Function of a batch and the schedule's factor c_e. It does one optimiser step and returns the detached
            loss.
        parameters: The trained weights. They are checked at the end, because the last step can break weights without a
            trace in any loss.
        batches: Function of an epoch that returns at least one batch; `shuffled_batches` by default.
        schedule: The factor of every epoch; see `SCHEDULES`.
        chance_loss: Loss of an untrained model, the scale of divergence; by default the chance cross-entropy over the
            task's classes.
        penalty: The regulariser's value minus its value at the start of the task; None without a regulariser.

    Returns:
        Mean loss per example of the last epoch, without the regulariser.

    Raises:
        DivergedError: If a loss or, at the end, a weight is not finite, or if an epoch's loss is above `BLOWN_UP` times
            the chance loss. The last epoch's loss has the regulariser in it: one that is strong for the first steps may
            grow and fall again, as steps get smaller. Losses are checked once per epoch, so that the loop never waits
            for a GPU.
    """
    batches = batches or shuffled_batches(task, context)
    scale = chance_cross_entropy(len(task.classes)) if chance_loss is None else chance_loss
    steps_done, mean = 0, 0.0
    for epoch in range(context.epochs):
        factor = SCHEDULES[schedule](epoch, context.epochs)
        losses, sizes = [], []
        for batch in context.waiting.counted(batches(epoch)):
            losses.append(step(batch, factor))
            sizes.append(len(batch.y))
        values = torch.stack(losses).double().cpu()
        if not values.isfinite().all():
            raise DivergedError(task.index, steps_done + int((~values.isfinite()).nonzero()[0]) + 1)
        steps_done += len(sizes)
        weights = torch.tensor(sizes, dtype=torch.float64)
        mean = float((values * weights).sum() / weights.sum())
        is_last = epoch + 1 == context.epochs
        value = mean + (penalty() if penalty and is_last else 0.0)
        if not value <= BLOWN_UP * scale:  # true for NaN, too
            what = f"{'regularised ' if is_last else ''}loss of {value:.3g} (chance loss {scale:.2g})"
            raise DivergedError(task.index, steps_done, what)
        context.on_epoch(Epoch(task.index, epoch + 1, context.epochs))
    if not all(bool(parameter.isfinite().all()) for parameter in parameters):
        raise DivergedError(task.index, steps_done)
    return mean


def gradient_steps(
    optimizer: torch.optim.Optimizer,
    loss: Callable[[Batch], Tensor | tuple[Tensor, Tensor]],
    *,
    clip_norm: float | None = None,
    adjust: Callable[[float | Tensor], None] | None = None,
    graph_on: torch.device | None = None,
) -> Step:
    """Return a step for `fit`: one backward pass, then the optimiser at its learning rate times c_e.

    Args:
        optimizer: Has one group of parameters, at the learning rate of the first epoch.
        loss: Function of a batch that returns its loss, or the loss and a term that is only added for the gradient.
        clip_norm: Limit of the norm of all gradients together; None for no clipping.
        adjust: Function of c_e that may change gradients and weights before the optimiser's step.
        graph_on: A GPU that records the step as a CUDA graph. Then c_e is a tensor, and `loss` and `adjust` must launch
            the same kernels for all batches of a shape, without a look at values or at `batch.rows`.
    """
    (group,) = optimizer.param_groups
    lr = group["lr"]

    def step(batch: Batch, factor: float | Tensor) -> Tensor:
        found = loss(batch)
        value, objective = (found[0], found[0] + found[1]) if isinstance(found, tuple) else (found, found)
        optimizer.zero_grad(set_to_none=True)
        objective.backward()
        if clip_norm is not None:
            nn.utils.clip_grad_norm_(group["params"], clip_norm)
        if adjust is not None:
            adjust(factor)
        group["lr"] = lr * factor
        optimizer.step()
        return value.detach()

    if graph_on is None:
        return step
    if "capturable" in group:
        group["capturable"] = True
    return GraphedStep(step, graph_on)


def local_loss(context: Context, model: nn.Module, heads: Heads, x: Tensor, y: Tensor) -> Tensor:
    """Return the mean local cross-entropy, over the current task's classes alone.

    `model` maps images x `(b, c, h, w)` to features `(b, d)`; labels y `(b,)` are relative to the task.
    """
    return F.cross_entropy(heads.local_logits(context.features(model, x)), y)
