"""(IA)^3: tau = theta_0 * (l - 1), one factor per row of every tuned weight, l = 1 at the start.

Source: the paper, section Algorithm(s). The rows of the weight are scaled and the bias is not; peft's own IA3 layer
scales the output, bias included.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.task_vectors.base import DenseTaskVectors, DenseTauLinear, Parametrisation


def ia3_tau(factor: Tensor, theta_0: Tensor) -> Tensor:
    """Return the dense tau `(out, in)` of l `(out,)` on theta_0 `(out, in)`."""
    return (factor - 1)[:, None] * theta_0


class IA3Linear(DenseTauLinear):
    """`y = (base + scale * (l - 1)[:, None] * theta_0) x + b`."""

    theta_0: Tensor

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer)
        self.register_buffer("theta_0", layer.weight.detach())
        self.factor = nn.Parameter(torch.ones_like(self.base[:, 0]))

    def tau(self) -> Tensor:
        """Return the dense tau `(out, in)`."""
        return ia3_tau(self.factor, self.theta_0)


class IA3TaskVectors(DenseTaskVectors):
    """Task vectors with one parameter per weight: l `(out,)`."""

    parametrisation: Parametrisation = "ia3"
    part = "l"
    kind = IA3Linear
    initial = 1.0

    def _vjp(self, name: str, gradient: Tensor) -> Tensor:
        """Return the row sums of gradient * theta_0."""
        return (gradient * self.theta_0[name]).sum(dim=1)
