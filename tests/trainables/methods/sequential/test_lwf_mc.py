"""LwF-MC in float64: targets and offsets with uneven tasks, the L2 term, three tasks against plain SGD."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.methods.tiny_trials import EXACT, Weights, learn
from tests.trainables.methods.sequential.tiny_sequence import (
    TASKS,
    assert_same,
    logits_of,
    make,
    plain_sgd,
    weights_of,
)
from trainables.data import Batch
from trainables.methods.sequential.lwf_mc import LwFMC, LwFMCConfig

LR = 0.1


def make_lwf(**options: Any) -> LwFMC:
    return make(LwFMC, LwFMCConfig(**{"lr": LR, **options}))


def begun(learner: LwFMC, tasks: int) -> LwFMC:
    """Train all tasks before the last of so many, and begin that one."""
    learn(learner, *TASKS[: tasks - 1])
    learner.begin_task(TASKS[tasks - 1])
    return learner


def binary_loss(weights: Weights, old: Weights, batch: Batch, first: int, end: int) -> Tensor:
    """Output by output: -(q log s + (1 - q) log(1 - s)), summed over outputs and averaged over the batch."""
    total = torch.zeros((), dtype=torch.float64)
    outputs = 1 / (1 + (-logits_of(weights, batch.x)).exp())
    before = 1 / (1 + (-logits_of(old, batch.x)).exp())
    for n, label in enumerate(batch.y.tolist()):
        for k in range(end):
            s, q = outputs[n, k], float(before[n, k]) if k < first else float(k == label)
            total = total - (q * s.log() + (1 - q) * (1 - s).log())
    return total / len(batch.y)


@pytest.mark.parametrize(("wd", "reduction"), [(0.0, "mean"), (0.01, "mean"), (0.01, "sum")])
def test_three_tasks_are_those_of_plain_sgd(wd: float, reduction: str) -> None:
    lwf = make_lwf(wd=wd, reduction=reduction)
    weights = weights_of(lwf)
    for task in TASKS:
        old, first, end = weights, task.classes.start, task.classes.stop

        def loss(leaves: Weights, batch: Batch, old: Weights = old, first: int = first, end: int = end) -> Tensor:
            found = binary_loss(leaves, old, batch, first, end) / (end if reduction == "mean" else 1)
            return found + wd * torch.stack([value.square().sum() for value in leaves.values()]).sum()

        weights = plain_sgd(task, weights=weights, loss=loss, lr=LR)
        learn(lwf, task)
        assert_same(lwf, weights)


@pytest.mark.parametrize(("number", "first", "end"), [(1, 0, 3), (2, 3, 5), (3, 5, 6)])
def test_targets_of_uneven_tasks(number: int, first: int, end: int) -> None:
    lwf = begun(make_lwf(), number)
    before, task = weights_of(lwf), TASKS[number - 1]
    lwf.train_task(task)  # the old network must not move with the new one
    batch = next(task.train.batches(len(task.train), None, shuffle=False))
    targets = lwf.targets(task, batch)
    assert targets.shape == (len(task.train), end) and not targets.requires_grad
    torch.testing.assert_close(targets[:, :first], 1 / (1 + (-logits_of(before, batch.x)[:, :first]).exp()), **EXACT)
    for row, label in zip(targets, task.train.labels.tolist(), strict=True):
        assert row[first:].tolist() == [float(k == label) for k in range(first, end)]


def test_the_l2_term_and_its_gradient() -> None:
    lwf, none = begun(make_lwf(wd=0.3), 2), begun(make_lwf(), 2)
    assert lwf.penalty() == none.penalty() == 0.0
    start = sum(float(weight.detach().square().sum()) for weight in lwf.weights.values())
    for learner in (lwf, none):
        for weight in learner.weights.values():
            weight.data *= 1.5
            weight.grad = torch.ones_like(weight)
        learner.add_penalty_gradients()
    assert lwf.penalty() == pytest.approx(0.3 * 1.25 * start) and none.penalty() == 0.0
    for weight in lwf.weights.values():
        torch.testing.assert_close(weight.grad, 1 + 0.6 * weight.detach(), **EXACT)
    assert all(bool((weight.grad == 1).all()) for weight in none.weights.values() if weight.grad is not None)


def test_the_scale_of_divergence_is_that_of_logits_that_are_zero() -> None:
    mean, total = begun(make_lwf(), 2), begun(make_lwf(reduction="sum"), 2)
    assert mean.chance_loss(TASKS[1]) == pytest.approx(math.log(2))
    assert total.chance_loss(TASKS[1]) == pytest.approx(5 * math.log(2))


def test_the_old_network_is_let_go() -> None:
    lwf = begun(make_lwf(), 2)
    assert lwf.old is not None
    lwf.end_task(TASKS[1])
    assert lwf.old is None
