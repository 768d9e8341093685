"""Stacks of matrices that are products of two narrow factors."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class LowRank:
    """The matrices left @ right, `(..., out, in)`."""

    left: Tensor  # `(..., out, r)`
    right: Tensor  # `(..., r, in)`

    def dense(self) -> Tensor:
        """Return the product, `(..., out, in)`."""
        return self.left @ self.right


Matrices = Tensor | LowRank


def dense(matrices: Matrices) -> Tensor:
    """Return matrices as one tensor `(..., out, in)`."""
    return matrices.dense() if isinstance(matrices, LowRank) else matrices
