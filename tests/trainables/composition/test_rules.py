"""Merging rules by name: parameters, what a rule sees, and rules that return something else than they must."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from tests.support.tiny_vit import make_tiny_vit
from tests.trainables.test_composition import learn
from trainables.composition import Merging, Parameter, SavedVector, choose_rule, composed, merged
from trainables.composition.chosen_rules import _fault
from trainables.errors import InputError
from trainables.task_vectors import FullTaskVectors, LoRATaskVectors
from trainables.user_code import allow_code


@pytest.fixture(scope="module")
def vectors() -> FullTaskVectors:
    return FullTaskVectors(make_tiny_vit())


@pytest.fixture(scope="module")
def three(vectors: FullTaskVectors) -> list[SavedVector]:
    return [learn(vectors, seed) for seed in range(3)]


class Largest:
    """Keep the largest entries of the whole task vector, which no rule does that looks at one weight."""

    parameters: ClassVar[Mapping[str, Parameter]] = {
        "share": Parameter(0.5, low=0, high=1, low_excluded=True),
        "scale": Parameter(1, low=0, high=3),
    }

    def merge(self, merging: Merging) -> dict[str, Tensor]:
        share, scale = merging.parameters["share"], merging.parameters["scale"]
        sums = {n: torch.zeros_like(value) for n, value in merging.taus[0].items()}
        for tau, weight in zip(merging.taus, merging.weights + (), strict=True):  # a tuple, as a contract test gives
            entries = torch.cat([value.flatten().abs() for value in tau.values()])
            least = entries.sort().values[round((1 - share) * len(entries))]
            for n, value in tau.items():
                sums[n] += scale * weight * value * (value.abs() >= least)
        return sums


class Broken:
    """Return what a test says."""

    parameters: ClassVar[Mapping[str, Parameter]] = {}
    answer: ClassVar[Any] = None

    def merge(self, merging: Merging) -> Any:
        return self.answer(merging) if callable(self.answer) else self.answer


class NoMerge:
    parameters: ClassVar[Mapping[str, Parameter]] = {}


class NoParameters:
    def merge(self, merging: Merging) -> dict[str, Tensor]:
        return {}


class NoNumbers(Broken):
    parameters: ClassVar[Any] = {"share": 0.5}


class BadDefault(Broken):
    parameters: ClassVar[Mapping[str, Parameter]] = {"share": Parameter(2, low=0, high=1)}


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    module: Any = ModuleType("their_rules")
    for each in (Largest, Broken, NoMerge, NoParameters, NoNumbers, BadDefault):
        setattr(module, each.__name__, each)
        allow_code(f"their_rules:{each.__name__}")
    monkeypatch.setitem(sys.modules, "their_rules", module)
    return "their_rules"


def test_a_rule_of_a_module_sees_whole_task_vectors_and_its_parameters(
    vectors: FullTaskVectors, three: list[SavedVector]
) -> None:
    rule = choose_rule("their_rules:Largest", {"scale": 2})
    assert rule.parameters == {"share": 0.5, "scale": 2.0}
    found = merged(vectors.theta_0, three, [0.5, 0.0, 0.25], rule)
    kept = {}
    for number in (0, 2):
        dense = {name: three[number].dense(name, weight) for name, weight in vectors.theta_0.items()}
        entries = torch.cat([value.flatten().abs() for value in dense.values()])
        middle = entries.sort().values[len(entries) // 2]
        kept[number] = {name: torch.where(value.abs() < middle, 0.0, value) for name, value in dense.items()}
    for name, weight in vectors.theta_0.items():
        torch.testing.assert_close(found[name], weight + 2 * (0.5 * kept[0][name] + 0.25 * kept[2][name]))


def test_the_weighted_sum_is_a_rule_too(vectors: FullTaskVectors, three: list[SavedVector]) -> None:
    weights = [0.5, -1.0, 2.0]
    found, wanted = (
        merged(vectors.theta_0, three, weights, choose_rule("linear", {})),
        composed(vectors.theta_0, three, weights),
    )
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name])


def test_a_factorised_vector_is_dense_where_a_rule_reads_it() -> None:
    lora = LoRATaskVectors(make_tiny_vit(), rank=2)
    vector = learn(lora, 1)
    found = choose_rule("their_rules:Largest", {"share": 1}).merge(lora.theta_0, [vector], [1.0])
    for name, weight in lora.theta_0.items():
        torch.testing.assert_close(found[name], vector.dense(name, weight))


@pytest.mark.parametrize(
    ("name", "given", "fault"),
    [
        ("ties", {"density": 0}, "rule 'ties': density must be above 0 and at most 1, got 0"),
        ("ties", {"density": 1.01}, "rule 'ties': density must be above 0 and at most 1, got 1.01"),
        ("ties", {"density": "much"}, "rule 'ties': density must be above 0 and at most 1, got 'much'"),
        ("ties", {"share": 0.5}, "rule 'ties': unknown parameter 'share'; allowed: density"),
        ("linear", {"density": 0.5}, "rule 'linear': unknown parameter 'density'; allowed: none"),
        (
            "tie",
            {},
            "unknown rule 'tie'; allowed: linear, ties, magnitude, dare, dare-ties, fisher, regmean, MODUL",
        ),
        ("their_rules:Largest", {"scale": -0.1}, "scale must be at least 0 and at most 3, got -0.1"),
        ("their_rules:NoMerge", {}, "the class NoMerge lacks merge() of the protocol MergingRule"),
        ("their_rules:NoNumbers", {}, "parameters must map each name to a Parameter"),
        ("their_rules:NoParameters", {}, "parameters is missing; write {} for none"),
        ("their_rules:BadDefault", {}, "the default of share must be at least 0 and at most 1, got 2"),
        ("their_rules:Nothing", {}, "a file names this code, you did not"),
    ],
)
def test_what_cannot_be_chosen_is_said_in_a_line(name: str, given: dict[str, Any], fault: str) -> None:
    with pytest.raises(InputError) as caught:
        choose_rule(name, given)
    assert fault in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["ties", "magnitude", "dare", "dare-ties"])
def test_a_fifth_of_the_entries_is_kept_unless_another_share_is_given(name: str) -> None:
    assert choose_rule(name, {}).parameters == {"density": 0.2}
    assert choose_rule(name, {"density": 1}).parameters == {"density": 1.0}


def test_draws_are_those_of_the_seed(vectors: FullTaskVectors, three: list[SavedVector]) -> None:
    first, again, other = (
        choose_rule("dare", {}, seed).merge(vectors.theta_0, three, [1.0, 1.0, 1.0]) for seed in (3, 3, 4)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


def test_ends_of_a_range_are_allowed() -> None:
    lowest = choose_rule("their_rules:Largest", {"scale": 0, "share": 1}).parameters
    assert (lowest["scale"], lowest["share"]) == (0, 1)
    assert choose_rule("their_rules:Largest", {"scale": 3}).parameters["scale"] == 3


@pytest.mark.parametrize(
    ("low", "high", "log"), [(1, 1, False), (0, math.inf, False), (-math.inf, 0, False), (0, 1, True)]
)
def test_a_parameter_has_finite_bounds(low: float, high: float, log: bool) -> None:
    with pytest.raises(ValueError, match="^low must be"):
        Parameter(0.5, low, high, log=log)


def test_yes_is_no_number_and_what_overflows_in_the_precision_of_the_weights_is_not_finite() -> None:
    assert Parameter(0.5, 0, 1).fault(True) == "must be at least 0 and at most 1, got True"
    large = torch.tensor([1e300], dtype=torch.float64)
    assert _fault({"a": large}, {"a": large}) is None
    assert _fault({"a": large}, {"a": large.float()}) == "merge returned numbers for 'a' that are not finite"


def _renamed(merging: Merging) -> dict[str, Tensor]:
    return {f"{name}s": tau for name, tau in merging.taus[0].items()}


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (3, "merge must return a mapping of tensors, got int"),
        ({}, "merge must return each tuned weight once; 'blocks.0.attn.proj.weight' is missing"),
        (_renamed, "merge must return each tuned weight once"),
        (lambda merging: {n: tau.T[:1] for n, tau in merging.taus[0].items()}, "merge must return ("),
        (lambda merging: {n: tau * torch.nan for n, tau in merging.taus[0].items()}, "that are not finite"),
        (
            lambda merging: {n: tau.long() for n, tau in merging.taus[0].items()},
            "merge must return floats for 'blocks.",
        ),
        (lambda merging: 1 / 0, "failed (ZeroDivisionError: division by zero in "),
    ],
)
def test_what_a_rule_returns_is_checked(
    answer: Any, fault: str, vectors: FullTaskVectors, three: list[SavedVector], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Broken, "answer", staticmethod(answer) if callable(answer) else answer)
    with pytest.raises(InputError) as caught:
        merged(vectors.theta_0, three, [1.0, 1.0, 1.0], choose_rule("their_rules:Broken", {}))
    assert fault in str(caught.value) and "\n" not in str(caught.value)


def test_what_a_rule_computes_in_other_precision_is_taken(
    vectors: FullTaskVectors, three: list[SavedVector], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = staticmethod(lambda merging: {n: tau.float().requires_grad_() for n, tau in merging.taus[0].items()})
    monkeypatch.setattr(Broken, "answer", answer)
    found = choose_rule("their_rules:Broken", {}).merge(vectors.theta_0, three, [1.0, 1.0, 1.0])
    for name, value in found.items():
        tau = three[0].dense(name, vectors.theta_0[name])
        assert torch.equal(value, tau.float().double()) and value.dtype == tau.dtype and not value.requires_grad
