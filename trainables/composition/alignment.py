"""Alignment of task vectors: inner products over all tuned weights, without heads.

Source: the paper, section "Alignment between task vectors of ITA and IEL".
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainables.composition.saved import SavedVector


@torch.no_grad()
def inner_products(theta_0: dict[str, Tensor], vectors: Sequence[SavedVector]) -> Tensor:
    """Return the Gram matrix of n task vectors, float64 `(n, n)`; dense taus of one weight are in memory at a time."""
    gram = torch.zeros(len(vectors), len(vectors), dtype=torch.float64)
    for name, weight in theta_0.items():
        rows = torch.stack([vector.dense(name, weight.cpu()).flatten().double() for vector in vectors])
        gram += rows @ rows.T
    return gram


def cosines(gram: Tensor) -> Tensor:
    """Return the cosines of all pairs, `(n, n)`; NaN where a vector is zero."""
    norms = gram.diagonal().sqrt()
    return gram / torch.outer(norms, norms)


def composed_cosine(gram: Tensor, first: Sequence[int], second: Sequence[int]) -> float:
    """Return the cosine of two uniform compositions, given the Gram matrix and the indices of their vectors."""

    def product(a: Sequence[int], b: Sequence[int]) -> Tensor:
        return gram[list(a)][:, list(b)].sum()

    return float(product(first, second) / (product(first, first) * product(second, second)).sqrt())
