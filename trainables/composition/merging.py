"""Merged models: theta_0 + sum_t w_t tau_t, and theta_0 + rule(tau_1, ..., tau_n).

Source: the paper, eq. (composition_base); weights of a subset specialise, negative ones unlearn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from trainables.composition.chosen_rules import ChosenRule
from trainables.composition.saved import SavedVector


@torch.no_grad()
def composed(theta_0: dict[str, Tensor], vectors: Iterable[SavedVector], weights: Sequence[float]) -> dict[str, Tensor]:
    """Return the tuned weights of a composed model by name, `(out, in)` each, on the device of theta_0.

    Weights are summed relative to the largest weight, so equal weights give the result of `Composition` bit for bit.
    Weights may be negative or 0. One task vector is in memory at a time.

    Raises:
        ValueError: If there are more or fewer vectors than weights.
    """
    sums = weighted_sum(theta_0, vectors, weights)
    # In the memory of the sums, so that no third set of weights is ever in memory.
    return {name: sums[name].add_(weight) for name, weight in theta_0.items()}


@torch.no_grad()
def weighted_sum(
    theta_0: dict[str, Tensor], vectors: Iterable[SavedVector], weights: Sequence[float]
) -> dict[str, Tensor]:
    """Return sum_t w_t tau_t by tuned weight name; see `composed`, which adds theta_0."""
    largest = max(weights, key=abs, default=0.0)
    sums = {name: torch.zeros_like(weight) for name, weight in theta_0.items()}
    remaining = iter(vectors)
    count = 0
    for count, weight in enumerate(weights, start=1):
        # A local name would keep the vector in memory while the next one is read.
        if not _add(sums, theta_0, next(remaining, None), weight / largest if largest else 0.0):
            raise ValueError(f"{len(weights)} weights for {count - 1} task vectors")
    if next(remaining, None) is not None:
        raise ValueError(f"{count} weights for more task vectors than that")
    return {name: total.mul_(largest) for name, total in sums.items()}


def shared_sum(
    theta_0: dict[str, Tensor], vectors: Iterable[SavedVector], weights: Sequence[float]
) -> dict[str, Tensor]:
    """Return the sum of task vectors that add up, whose weights say how they share it.

    With n weights other than 0 it is n sum_t w_t tau_t: equal weights that sum to 1 give tau_1 + ... + tau_n, where
    `weighted_sum` gives the mean.
    """
    count = sum(1 for weight in weights if weight)
    return weighted_sum(theta_0, vectors, [count * weight for weight in weights])


def _add(sums: dict[str, Tensor], theta_0: dict[str, Tensor], vector: SavedVector | None, weight: float) -> bool:
    """Add a vector to the sums if there is one; returns whether there is."""
    if vector is not None and weight:
        for name, total in sums.items():
            tau = vector.dense(name, theta_0[name])
            total += tau if weight == 1 else weight * tau
    return vector is not None


@torch.no_grad()
def merged(
    theta_0: dict[str, Tensor], vectors: Sequence[SavedVector], weights: Sequence[float], rule: ChosenRule
) -> dict[str, Tensor]:
    """Return the tuned weights of a merged model by name, `(out, in)` each, on the device of theta_0.

    The rule is computed on the CPU, so that all devices have the same result. Vectors of weight 0 take no part.
    """
    parts = [(vector, weight) for vector, weight in zip(vectors, weights, strict=True) if weight]
    if not parts:
        return {name: weight.clone() for name, weight in theta_0.items()}
    taus = rule.merge(theta_0, [vector for vector, _ in parts], [weight for _, weight in parts])
    return {name: weight + taus.pop(name).to(weight.device) for name, weight in theta_0.items()}
