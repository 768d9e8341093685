"""Merging rules: equal to peft's and to sums by hand, and where they are a weighted sum."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from peft.utils import merge_utils
from torch import Tensor

from tests.support.tiny_vit import make_tiny_vit
from tests.trainables.test_composition import learn
from trainables.composition import RULES, Merging, choose_rule as chosen, composed, merged
from trainables.composition.adapter import concatenated
from trainables.randomness import make_generator
from trainables.task_vectors import FullTaskVectors, LoRATaskVectors

TAUS = [torch.tensor([[3.0, -1.0], [0.5, -4.0]]), torch.tensor([[1.0, 2.0], [-0.1, -2.0]])]
PEFT = ["ties", "magnitude", "dare", "dare-ties"]


def merge(
    name: str, density: float, taus: list[Tensor], weights: list[float], seed: int = 0, weight: str = "w"
) -> Tensor:
    """The merged tau on one weight."""
    parameters = chosen(name, {"density": density}).parameters
    merging = Merging(taus=[{weight: tau} for tau in taus], weights=weights, parameters=parameters, seed=seed)
    return RULES[name]().merge(merging)[weight]


def test_ties_by_hand() -> None:
    # The two largest of each: [[3, 0], [0, -4]] and [[0, 2], [0, -2]]; all signs agree; means of those that are there.
    assert torch.equal(merge("ties", 0.5, TAUS, [0.5, 0.5]), torch.tensor([[3.0, 2.0], [0.0, -3.0]]))


def test_a_negative_weight_adds_the_vector_turned_round() -> None:
    for name in ("ties", "magnitude"):
        turned = merge(name, 0.5, [TAUS[0], -TAUS[1]], [0.5, 0.5])
        assert torch.equal(merge(name, 0.5, TAUS, [0.5, -0.5]), turned)


@pytest.mark.parametrize("name", PEFT)
def test_rules_are_pefts(name: str) -> None:
    functions = {"ties": "ties", "magnitude": "magnitude_prune", "dare": "dare_linear", "dare-ties": "dare_ties"}
    taus = [torch.randn(5, 7, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    factor = 3 if "ties" in name else 1
    weights = torch.tensor([0.2, 0.3, 0.5])
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(make_generator(4, "merge", "w").get_state())
        wanted = getattr(merge_utils, functions[name])(taus, factor * weights, 0.4)
    found = merge(name, 0.4, taus, weights.tolist(), seed=4)
    torch.testing.assert_close(found, wanted)
    assert found.count_nonzero() and not torch.allclose(found, (weights[:, None, None] * torch.stack(taus)).sum(0))


@pytest.mark.parametrize("name", PEFT)
def test_where_all_signs_agree_and_all_is_kept_a_rule_is_the_weighted_sum(name: str) -> None:
    vectors = FullTaskVectors(make_tiny_vit(dtype=torch.float32))
    three = [learn(vectors, seed) for seed in range(3)]
    for vector in three:
        for parts in vector.parameters.values():
            parts["tau"].abs_()
    weights = [0.2, 0.0, 0.5]
    found = merged(vectors.theta_0, three, weights, chosen(name, {"density": 1}))
    wanted = composed(vectors.theta_0, three, weights)
    for weight in wanted:
        torch.testing.assert_close(found[weight], wanted[weight])


def test_what_is_drawn_depends_on_seed_and_weight_alone_and_leaves_the_global_state() -> None:
    def draw(seed: int, name: str) -> Tensor:
        return merge("dare", 0.5, TAUS, [1.0, 0.5], seed, name)

    before = torch.get_rng_state()
    first = draw(0, "w")
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        assert torch.equal(draw(0, "w"), first)
    assert any(not torch.equal(draw(seed, name), first) for seed in range(4) for name in ("w", "v"))


def test_vectors_of_weight_0_take_no_part() -> None:
    vectors, rule = FullTaskVectors(make_tiny_vit(dtype=torch.float32)), chosen("ties", {"density": 0.5})
    three = [learn(vectors, seed) for seed in range(3)]
    found = merged(vectors.theta_0, three, [0.0, 0.5, 0.5], rule)
    wanted = merged(vectors.theta_0, three[1:], [0.5, 0.5], rule)
    nothing = merged(vectors.theta_0, three, [0.0] * 3, rule)
    for name, weight in vectors.theta_0.items():
        assert torch.equal(found[name], wanted[name]) and torch.equal(nothing[name], weight)


@pytest.mark.parametrize("weights", [[0.5, -1.0, 2.0], [0.0, 0.3, 0.7]])
def test_factors_side_by_side_are_the_weighted_sum(weights: list[float]) -> None:
    vectors = LoRATaskVectors(make_tiny_vit(), rank=2)
    three = [replace(learn(vectors, seed), scale=scale) for seed, scale in enumerate((1.0, 0.25, -3.0))]
    found = concatenated(three, weights)
    wanted = composed(vectors.theta_0, three, weights)
    for name, weight in vectors.theta_0.items():
        rank = (6 if "qkv" in name else 2) * sum(map(bool, weights))
        assert len(found[name]["A"]) == rank
        torch.testing.assert_close(weight + found[name]["B"] @ found[name]["A"], wanted[name])
