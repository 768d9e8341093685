"""Pre-consolidation stage by stage, in float32 as trials run it; `tests/reference` has the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.support.methods.small_digits import small_digits
from trainables.backbones import Backbone
from trainables.heads import Head
from trainables.preconsolidation import Consolidation, PreconsolidationConfig, consolidation
from trainables.preconsolidation.consolidation import consolidate
from trainables.preconsolidation.mixtures import Mixture
from trainables.preconsolidation.probing import align, linear_probe
from trainables.randomness import make_generator

CPU = torch.device("cpu")


@pytest.fixture
def clusters(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Features of two classes that a line tells apart, and their labels."""
    labels = torch.arange(60) % 2
    return torch.randn(60, 3, generator=generator) + 4 * labels[:, None], labels


def rows_at_zero(classes: int) -> Head:
    return torch.zeros(classes, 3), torch.zeros(classes)


def test_a_probe_is_plain_sgd_over_as_many_epochs_as_are_asked_for(clusters: tuple[Tensor, Tensor]) -> None:
    draws = []

    def draw() -> Iterator[tuple[Tensor, Tensor]]:
        draws.append(1)
        yield clusters[0][:40], clusters[1][:40]
        yield clusters[0][40:], clusters[1][40:]

    start = rows_at_zero(2)
    weight, bias = (part.clone().requires_grad_() for part in start)
    for _ in range(3):
        for x, y in ((clusters[0][:40], clusters[1][:40]), (clusters[0][40:], clusters[1][40:])):
            gradients = torch.autograd.grad(F.cross_entropy(x @ weight.T + bias, y), (weight, bias))
            weight, bias = (
                (p - 0.1 * g).detach().requires_grad_() for p, g in zip((weight, bias), gradients, strict=True)
            )
    got = linear_probe(start, 3, 0.1, draw)
    torch.testing.assert_close(got, (weight.detach(), bias.detach()))
    assert len(draws) == 3 and not any(part.requires_grad for part in got)
    assert not start[0].any() and not start[1].any()  # a copy was trained
    assert all(torch.equal(a, b) for a, b in zip(linear_probe(got, 0, 0.1, draw), got, strict=True))


@pytest.mark.parametrize(("task", "epochs"), [(1, 10), (2, 15), (4, 25)])
def test_alignment_separates_classes_that_no_probe_has_seen_together(
    task: int, epochs: int, clusters: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    mixtures = [Mixture(torch.ones(1), torch.full((1, 3), 4.0 * c), torch.ones(1, 3)) for c in range(2)]
    draws: list[int] = []
    original = Mixture.sample
    monkeypatch.setattr(Mixture, "sample", lambda self, n, g: draws.append(n) or original(self, n, g))
    start = (0.01 * torch.ones(2, 3), torch.tensor([0.1, 0.0]))  # says class 0 of everything
    before = start[0].clone()
    weight, bias = align(start, mixtures, task, 500, CPU, make_generator(0, "align"))
    assert draws == [500] * 2 * epochs  # fresh ones of both classes in every epoch
    assert torch.equal(start[0], before)
    right = [((x @ w.T + b).argmax(1) == y).float().mean() for (x, y) in [clusters] for w, b in (start, (weight, bias))]
    assert right[0] == 0.5 and right[1] >= 0.75


def consolidated(seed: int) -> Consolidation:
    config = PreconsolidationConfig(lr_pre=0.2, epochs_pre=2, components=3, draws=7, fisher_passes=1)
    task, backbone = small_digits().tasks[0], Backbone().load()
    return consolidate(task, None, backbone=backbone, config=config, batch_size=5, seed=seed, device=CPU)


def test_the_stages_come_in_the_order_of_the_algorithm_and_are_given_their_hyperparameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order, given_to = [], dict[str, tuple[Any, ...]]()
    for name in ("fit_mixture", "linear_probe", "align", "layer_fisher"):
        original = getattr(consolidation, name)

        def spy(*args: object, name: str = name, original=original, **given: object) -> object:  # type: ignore[no-untyped-def]
            order.append(name)
            given_to[name] = (*args, given.get("passes"))
            return original(*args, **given)

        monkeypatch.setattr(consolidation, name, spy)
    consolidated(0)
    assert order == ["fit_mixture", "fit_mixture", "linear_probe", "align", "layer_fisher"]
    assert given_to["fit_mixture"][1] == 3 and given_to["align"][3] == 7 and given_to["layer_fisher"][-1] == 1
    epochs, lr, draw = given_to["linear_probe"][1:4]
    assert (epochs, lr) == (2, 0.2) and [len(labels) for _, labels in draw()] == [5, 5, 5, 5, 4]


def test_another_seed_is_another_pre_consolidation() -> None:
    one, other = consolidated(0), consolidated(1)
    assert not torch.allclose(one.head[0], other.head[0], atol=1e-4)
    assert not torch.equal(one.mixtures[0].means, other.mixtures[0].means)
