"""The contract of merging rules: what they declare and return, and that they change nothing that they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from checked_input.fields import require_argument
from trainables.composition import Merging, MergingRule, curvatures_of
from trainables.composition.chosen_rules import DenseVector, checked_merge, checked_rule
from trainables.composition.curvatures import SavedCurvatures
from trainables.curvature import CurvatureKind, DiagonalCurvature, Factors, KroneckerCurvature, TaskCurvature
from trainables.user_code import as_breach

T = TypeVar("T")
_SHAPES = {"blocks.0.attn.qkv.weight": (12, 4), "blocks.0.mlp.fc1.weight": (8, 4), "blocks.1.mlp.fc1.weight": (8, 4)}
_WEIGHTS = ((0.5, 0.25, 0.25), (1.0, -0.5, 2.0), (1.0,))


def check_rule(make: Callable[[], MergingRule]) -> None:
    """Check a merging rule on small task vectors, at the default and at both ends of each of its parameters.

    A rule that reads curvatures gets each kind that it declares. One row of the first weight has none in any task.

    Args:
        make: The rule's class, or another function that makes the rule.

    Raises:
        AssertionError: If `compose` would refuse the rule or what it returns; or if it returns something else when it
            is asked again, draws from torch's global generator, or changes the task vectors or the curvatures.
        InputError: If `make` is no function.
    """
    require_argument(callable(make), "make", "the rule's class, or a function that makes the rule", make)
    rule = _accepted(make, lambda what: checked_rule(what, make))
    defaults = {name: each.default for name, each in rule.parameters.items()}
    for parameters in _settings(rule, defaults):
        for weights in _WEIGHTS:
            for kind in curvatures_of(rule) or (None,):
                _check(make, weights, parameters, kind)


def _check(
    make: Callable[[], MergingRule],
    weights: tuple[float, ...],
    parameters: dict[str, float],
    kind: CurvatureKind | None,
) -> None:
    taus = [_tau(seed) for seed in range(len(weights))]
    curvatures: Sequence[TaskCurvature] = SavedCurvatures([], {}, ())  # says what a rule must declare
    if kind is not None:
        curvatures = [_curvature(kind, seed) for seed in range(len(weights))]
    theta_0 = {name: torch.zeros(shape) for name, shape in _SHAPES.items()}
    read = [DenseVector(_Kept(tau), theta_0) for tau in taus]  # type: ignore[arg-type]  # as `compose` gives them
    merging = Merging(taus=read, weights=weights, curvatures=curvatures, parameters=parameters, seed=3)
    state = torch.get_rng_state()
    first, second = (_accepted(make, lambda what: checked_merge(what, make(), merging, theta_0)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state), "draws from torch's global generator"
    assert all(torch.equal(first[name], second[name]) for name in first), "returns something else when asked again"
    assert all(_equal(tau, _tau(seed)) for seed, tau in enumerate(taus)), "changes the task vectors"
    if kind is not None:
        unchanged = [_curvature(kind, seed).mean.tensors() for seed in range(len(weights))]
        same = all(_equal(each.mean.tensors(), old) for each, old in zip(curvatures, unchanged, strict=True))
        assert same, "changes the curvatures"


class _Kept(dict[str, Tensor]):
    """A saved vector that gives the same tensors each time, so that a change of one is noticed."""

    def dense(self, name: str, theta_0: Tensor) -> Tensor:
        return self[name]


def _accepted(make: Callable[[], MergingRule], check: Callable[[str], T]) -> T:
    """Return what a check of `compose` returns; its error becomes an `AssertionError`."""
    with as_breach():
        return check(f"rule {getattr(make, '__name__', 'under test')!r}")


def _equal(tensors: dict[str, Tensor], others: dict[str, Tensor]) -> bool:
    return all(torch.equal(value, others[name]) for name, value in tensors.items())


def _settings(rule: MergingRule, defaults: dict[str, float]) -> Iterator[dict[str, float]]:
    yield defaults
    for name, each in rule.parameters.items():
        yield {**defaults, name: each.lowest}
        yield {**defaults, name: each.high}


def _tau(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in _SHAPES.items()}


def _curvature(kind: CurvatureKind, seed: int) -> TaskCurvature:
    """Return the curvature of a task; the first rows of the first weight are 0 in all tasks, as of a dead input."""
    generator = torch.Generator().manual_seed(seed)

    def drawn(name: str, *shape: int) -> Tensor:
        value = torch.randn(shape, generator=generator)
        if name == next(iter(_SHAPES)):
            value[0] = 0.0
        return value

    if kind == "diagonal":
        return TaskCurvature(DiagonalCurvature({n: drawn(n, *shape).square() for n, shape in _SHAPES.items()}), 10)
    halves = {name: (drawn(name, inputs, 9), drawn(name, outputs, 9)) for name, (outputs, inputs) in _SHAPES.items()}
    factors = {name: Factors((a @ a.T)[None], (g @ g.T)[None]) for name, (a, g) in halves.items()}
    return TaskCurvature(KroneckerCurvature(factors), 10)
