"""The contract of merging rules: what they declare and return, and that they change nothing that they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from trainables.composition import Merging, MergingRule

_SHAPES = {"blocks.0.attn.qkv.weight": (12, 4), "blocks.0.mlp.fc1.weight": (8, 4), "blocks.1.mlp.fc1.weight": (8, 4)}
_WEIGHTS = ((0.5, 0.25, 0.25), (1.0, -0.5, 2.0), (1.0,))


def check_rule(make: Callable[[], MergingRule]) -> None:
    """Check a merging rule on small task vectors, at the default and at both ends of each of its parameters.

    Args:
        make: Makes the rule, as its class does.

    Raises:
        AssertionError: If it returns other names, shapes or numbers that are not finite, returns something else when it
            is asked again, draws from torch's global generator, or changes the task vectors.
    """
    rule = make()
    defaults = {name: each.default for name, each in rule.parameters.items()}
    for name, each in rule.parameters.items():
        assert each.fault(each.default) is None, f"the default of {name} {each.fault(each.default)}"
    for parameters in _settings(rule, defaults):
        for weights in _WEIGHTS:
            taus = [_tau(seed) for seed in range(len(weights))]
            merging = Merging(taus=taus, weights=weights, parameters=parameters, seed=3)
            state = torch.get_rng_state()
            first, again = dict(rule.merge(merging)), dict(make().merge(merging))
            assert torch.equal(torch.get_rng_state(), state), "draws from torch's global generator"
            shapes = {name: tuple(value.shape) for name, value in first.items()}
            assert shapes == _SHAPES, f"must return {_SHAPES}, got {shapes}"
            assert all(bool(torch.isfinite(value).all()) for value in first.values()), (
                "returns numbers that are not finite"
            )
            assert all(torch.equal(first[name], again[name]) for name in first), (
                "returns something else when asked again"
            )
            same = all(torch.equal(tau[name], _tau(seed)[name]) for seed, tau in enumerate(taus) for name in tau)
            assert same, "changes the task vectors"


def _settings(rule: MergingRule, defaults: dict[str, float]) -> Iterator[dict[str, float]]:
    yield defaults
    for name, each in rule.parameters.items():
        low = each.low + 1e-3 * (each.high - each.low) if each.low_excluded else each.low
        yield {**defaults, name: low}
        yield {**defaults, name: each.high}


def _tau(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in _SHAPES.items()}
