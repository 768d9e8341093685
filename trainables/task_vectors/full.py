"""Full fine-tuning: tau is a free matrix, zero at the start."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.task_vectors.base import DenseTaskVectors, DenseTauLinear, Parametrisation


class FullLinear(DenseTauLinear):
    """`y = (base + scale * delta) x + b`."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer)
        self.delta = nn.Parameter(torch.zeros_like(self.base))

    def tau(self) -> Tensor:
        """Return the dense tau, which is delta itself."""
        return self.delta


class FullTaskVectors(DenseTaskVectors):
    """Task vectors with one parameter per weight: delta `(out, in)`."""

    parametrisation: Parametrisation = "full"
    part = "tau"
    kind = FullLinear
    initial = 0.0

    def _vjp(self, name: str, gradient: Tensor) -> Tensor:
        """Return the gradient of delta, which is that of tau itself."""
        return gradient
