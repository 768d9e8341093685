"""Merged models: theta_0 + sum_t w_t tau_t, and theta_0 + rule(tau_1, ..., tau_n) by a rule of peft.

Sources: the paper, eq. (composition_base); weights of a subset specialise, negative ones unlearn. The rules are those
of `peft.utils.merge_utils`: TIES, Yadav et al. 2023, https://arxiv.org/abs/2306.01708; DARE, Yu et al. 2023,
https://arxiv.org/abs/2311.03099. peft prunes each weight separately, not the whole task vector.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from trainables.composition.saved import SavedVector
from trainables.randomness import make_generator

RuleName = Literal["ties", "magnitude", "dare", "dare-ties"]
RULES: tuple[RuleName, ...] = get_args(RuleName)
_PEFT = {"ties": "ties", "magnitude": "magnitude_prune", "dare": "dare_linear", "dare-ties": "dare_ties"}
_MEANS = ("ties", "dare-ties")  # peft divides their sum by the number of entries with the elected sign
_CPU = torch.device("cpu")


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


def _add(sums: dict[str, Tensor], theta_0: dict[str, Tensor], vector: SavedVector | None, weight: float) -> bool:
    """Add a vector to the sums if there is one; returns whether there is."""
    if vector is not None and weight:
        for name, total in sums.items():
            tau = vector.dense(name, theta_0[name])
            total += tau if weight == 1 else weight * tau
    return vector is not None


@dataclass(frozen=True)
class MergingRule:
    """A rule of peft with its settings.

    Attributes:
        name: "magnitude" keeps the largest entries of each tau; "dare" keeps random entries and scales them up. "ties"
            and "dare-ties" then drop entries without the elected sign and average the others.
        density: Share of the entries of tau on each weight that is kept, in (0, 1].
        seed: Seed of the draws of "dare" and "dare-ties".
    """

    name: RuleName
    density: float
    seed: int = 0

    def __call__(self, weight_name: str, taus: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
        """Return the merged tau of several task vectors on one weight, `(out, in)`.

        A negative weight negates its tau before signs are elected. With weights of one sign and density 1, every rule
        is the weighted sum. `taus` are dense, `(out, in)`, and on the CPU. Random draws depend on the name of the
        weight and the seed alone.
        """
        signed = [-tau if weight < 0 else tau for tau, weight in zip(taus, weights, strict=True)]
        # Cancels peft's division by the number of terms: the weights average already.
        factor = len(weights) if self.name in _MEANS else 1
        sizes = torch.tensor([factor * abs(weight) for weight in weights], dtype=taus[0].dtype)
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():  # peft draws from the global generator
            torch.set_rng_state(make_generator(self.seed, "merge", weight_name).get_state())
            warnings.simplefilter("ignore")  # density 1 prunes nothing
            from peft.utils import merge_utils  # takes more than a second to import

            return getattr(merge_utils, _PEFT[self.name])(signed, sizes, self.density)


@torch.no_grad()
def merged(
    theta_0: dict[str, Tensor], vectors: Sequence[SavedVector], weights: Sequence[float], rule: MergingRule
) -> dict[str, Tensor]:
    """Return the tuned weights of a merged model by name, `(out, in)` each, on the device of theta_0.

    The rule is computed on the CPU, so that all devices have the same result. The dense taus of one weight are in
    memory at a time. Vectors of weight 0 take no part.
    """
    parts = [(vector, weight) for vector, weight in zip(vectors, weights, strict=True) if weight]
    if not parts:
        return {name: weight.clone() for name, weight in theta_0.items()}
    found = {}
    for name, weight in theta_0.items():
        taus = [vector.dense(name, weight.to(_CPU)) for vector, _ in parts]
        found[name] = weight + rule(name, taus, [w for _, w in parts]).to(weight.device)
    return found
