"""EWC in float64: Fisher against loops and closed forms, penalty against autograd, three tasks against plain SGD."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from tests.support.methods.tiny_trials import EXACT, Weights, learn
from tests.trainables.methods.sequential.tiny_sequence import (
    CONTEXT,
    TASKS,
    assert_same,
    batches_in_order,
    local_cross_entropy,
    logits_of,
    make,
    plain_sgd,
    weights_of,
)
from trainables.data import Batch, Task
from trainables.errors import DivergedError
from trainables.methods import get_method
from trainables.methods.sequential import ewc as module
from trainables.methods.sequential.ewc import EWC, EWCConfig
from trainables.methods.sequential.learner import add_to_gradients
from trainables.randomness import make_generator

LR, EPSILON, GAMMA = 0.05, 0.5, 0.7
ALL = range(CONTEXT.num_classes)


def make_ewc(**options: Any) -> EWC:
    return make(EWC, EWCConfig(**{"lr": LR, "epsilon": EPSILON, "gamma": GAMMA, **options}))


def plain_fisher(weights: Weights, task: Task, kind: str, classes: range) -> Weights:
    """Example by example and class by class, with autograd."""
    total = {name: torch.zeros_like(value) for name, value in weights.items()}
    for batch in batches_in_order(task, make_generator(CONTEXT.seed, "fisher", task.index)):
        for image, label in zip(batch.x, batch.y.tolist(), strict=True):
            leaves = {name: value.clone().requires_grad_() for name, value in weights.items()}
            p = logits_of(leaves, image[None])[0, classes.start : classes.stop].softmax(0)
            for k in classes if kind == "true" else [label]:
                share = 1.0 if kind == "empirical" else float(p[k - classes.start].detach())
                parts = torch.autograd.grad(p[k - classes.start].log(), list(leaves.values()), retain_graph=True)
                for name, gradient in zip(leaves, parts, strict=True):
                    total[name] += share * gradient**2 / len(task.train)
    return total


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fisher": "empirical", "fisher_classes": "seen"},
        {"fisher": "true", "fisher_classes": "task"},
        {"cross_entropy": "global"},
    ],
    ids=str,
)
def test_three_tasks_are_those_of_plain_sgd_on_loss_plus_penalty(options: dict[str, Any]) -> None:
    ewc, free = make_ewc(**options), make_ewc(**options, epsilon=0.0)
    weights = weights_of(ewc)
    fisher: Weights = {name: torch.zeros_like(value) for name, value in weights.items()}
    for task in TASKS:
        anchor, held = weights, fisher
        classes = ALL if "cross_entropy" in options else task.classes

        def loss(
            leaves: Weights, batch: Batch, anchor: Weights = anchor, held: Weights = held, classes: range = classes
        ) -> Tensor:
            pull = sum((held[name] * (leaves[name] - anchor[name]) ** 2).sum() for name in leaves)
            return local_cross_entropy(logits_of(leaves, batch.x), batch.y, classes) + EPSILON * pull

        weights = plain_sgd(task, weights=weights, loss=loss, lr=LR)
        scope = {"seen": range(task.classes.stop), "task": task.classes}.get(options.get("fisher_classes", ""), ALL)
        new = plain_fisher(weights, task, options.get("fisher", "weighted"), scope)
        fisher = {name: GAMMA * fisher[name] + value for name, value in new.items()}
        learn(ewc, task)
        assert_same(ewc, weights)
        for name, value in fisher.items():
            torch.testing.assert_close(ewc.curvature.tensors()[name], value, **EXACT)
    learn(free, *TASKS)
    moved = [weights_of(free)[name] - weights[name] for name in weights]
    assert max(float(each.abs().max()) for each in moved) > 1e-6  # the penalty is large enough to be seen above


@pytest.mark.parametrize("kind", ["weighted", "true"])
def test_the_fisher_of_the_classifier_has_a_closed_form(kind: str) -> None:
    ewc, task = make_ewc(fisher=kind), TASKS[0]
    ewc.begin_task(task)
    batches = batches_in_order(task, make_generator(CONTEXT.seed, "fisher", 1))
    p = torch.cat([logits_of(weights_of(ewc), batch.x).softmax(1) for batch in batches])
    one_hot = torch.nn.functional.one_hot(task.train.labels, len(ALL)).double()
    weighted = (p * one_hot).sum(1, keepdim=True) * (one_hot - p) ** 2
    wanted = {"true": p * (1 - p), "weighted": weighted}[kind].mean(0)
    torch.testing.assert_close(ewc.task_fisher(task).tensors()["heads/bias"], wanted, **EXACT)


def test_the_fisher_does_not_depend_on_how_many_examples_are_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ewc, task = make_ewc(), TASKS[0]
    ewc.begin_task(task)
    together = ewc.task_fisher(task).tensors()
    assert module.examples_at_once(ewc.weights) > CONTEXT.batch_size
    monkeypatch.setattr(module, "GRADIENT_BYTES", {"cpu": 1})
    assert module.examples_at_once(ewc.weights) == 1
    for name, value in ewc.task_fisher(task).tensors().items():
        torch.testing.assert_close(value, together[name], **EXACT)


@pytest.mark.parametrize(("device", "examples"), [("cpu", 4), ("meta", 16)])
def test_as_many_examples_are_taken_at_once_as_the_device_of_the_weights_has_room_for(
    device: str, examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRADIENT_BYTES", {"cpu": 2**22, "meta": 2**24})
    assert module.examples_at_once({"w": torch.empty(2**18, device=device)}) == examples


def test_the_fisher_takes_plain_attention_and_leaves_the_network_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    ewc = make_ewc()
    fails = mock.Mock(side_effect=AssertionError("a fused kernel was mapped over examples"))
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", fails)
    before, fused = weights_of(ewc), [block.attn.fused_attn for block in ewc.model.blocks]
    ewc.begin_task(TASKS[0])
    ewc.task_fisher(TASKS[0])
    assert_same(ewc, before)
    assert [block.attn.fused_attn for block in ewc.model.blocks] == fused and any(fused)
    assert all(weight.grad is None and weight.requires_grad for weight in ewc.weights.values())


def test_the_penalty_is_that_of_the_formula_and_its_gradient_that_of_autograd() -> None:
    ewc = make_ewc()
    generator = make_generator(0, "penalty")
    for task in TASKS[:2]:
        ewc.begin_task(task)
        assert ewc.penalty() == 0.0
        ewc.end_task(task)
    ewc.begin_task(TASKS[2])
    anchor = weights_of(ewc)
    for weight in ewc.weights.values():
        weight.data += torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        weight.grad = torch.ones_like(weight)
    fisher = ewc.curvature.tensors()
    value = sum(EPSILON * (fisher[name] * (weight - anchor[name]) ** 2).sum() for name, weight in ewc.weights.items())
    assert isinstance(value, Tensor) and ewc.penalty() == pytest.approx(float(value.detach()), rel=1e-12)
    wanted = torch.autograd.grad(value, list(ewc.weights.values()))
    ewc.add_penalty_gradients()
    for weight, gradient in zip(ewc.weights.values(), wanted, strict=True):
        assert weight.grad is not None
        torch.testing.assert_close(weight.grad, 1 + gradient, **EXACT)


def test_a_direction_is_added_by_name_where_there_is_a_gradient() -> None:
    weights = {name: torch.nn.Parameter(torch.zeros(2)) for name in ("still", "a", "b")}
    for name in ("a", "b"):
        weights[name].grad = torch.ones(2)
    add_to_gradients(
        weights, {name: torch.full((2,), own) for name, own in (("b", 3.0), ("a", 5.0), ("still", 7.0))}, 2
    )
    assert [None if each.grad is None else each.grad.tolist() for each in weights.values()] == [None, [11, 11], [7, 7]]


def test_a_penalty_that_blows_up_is_divergence() -> None:
    ewc = make_ewc()
    ewc.begin_task(TASKS[0])
    with (
        mock.patch.object(ewc, "penalty", lambda: 1e4),
        pytest.raises(DivergedError, match=r"regularised loss of 1e\+04"),
    ):
        ewc.train_task(TASKS[0])


def test_the_limit_of_stability_is_reported_where_it_means_something() -> None:
    ewc, adamw = make_ewc(), make_ewc(optimizer="adamw")
    rows = []
    for task in TASKS[:2]:
        for learner in (ewc, adamw):
            learner.begin_task(task)
            rows.append(learner.train_task(task).get("train/euler_factor"))
            fisher = {} if learner.curvature is None else learner.curvature.tensors()
            largest = max((float(value.max()) for value in fisher.values()), default=0.0)
            learner.end_task(task)
            assert rows[-1] in (None, pytest.approx(2 * LR * EPSILON * largest))
    assert [row is not None for row in rows] == [False, False, True, False]
    (metric,) = get_method("ewc").metrics
    line = metric.warn(3, [{"task": 2.0, metric.name: 4.0}])
    assert line == "trial 3: 2 lr epsilon max Fisher reaches 4 (from task 2); steps of SGD are stable below 2"
