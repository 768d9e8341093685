"""The true diagonal Fisher of the rows of a linear classifier."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.curvature.diagonal import DiagonalCurvature
from trainables.heads import Head


def head_fisher(features: Tensor, head: Head, rows: slice) -> DiagonalCurvature:
    """Return the mean true Fisher of some rows of a linear classifier, in closed form.

    Its names are `weight`, `(r, d)`, and `bias`, `(r,)`.

    d log p_k / d W_c = (1[k = c] - p_c) x, and its square has expectation p_c (1 - p_c) x^2 under p. Without features
    `(m, d)` the Fisher is zero.
    """
    weight, bias = head
    if len(features) == 0:
        return DiagonalCurvature({"weight": torch.zeros_like(weight[rows]), "bias": torch.zeros_like(bias[rows])})
    p = nn.functional.linear(features, weight, bias).softmax(1)[:, rows]
    spread = p * (1 - p)  # [m, r]
    return DiagonalCurvature({"weight": spread.T @ features**2 / len(features), "bias": spread.mean(0)})
