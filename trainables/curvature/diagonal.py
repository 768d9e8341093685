"""The diagonal curvature: one number for each weight, such as the diagonal of the Fisher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.task_vectors.low_rank import Matrices, dense


@dataclass(frozen=True)
class DiagonalCurvature:
    """H = diag(F); sums over tasks are exact. See `Curvature`.

    Attributes:
        values: Weight name to F in the weight's shape.
    """

    values: dict[str, Tensor]

    def plus(self, other: DiagonalCurvature, weight: float = 1.0) -> DiagonalCurvature:
        """Return H + weight * H'."""
        values = self.values.items()
        return DiagonalCurvature({name: torch.add(value, other.values[name], alpha=weight) for name, value in values})

    def scaled(self, factor: float) -> DiagonalCurvature:
        """Return factor * H."""
        return self._each(lambda value: factor * value)

    def mean_over(self, examples: int) -> DiagonalCurvature:
        """Return H / examples."""
        return self._each(lambda value: value / examples)

    def shifted(self, amount: float) -> DiagonalCurvature:
        """Return H + amount * I."""
        return self._each(lambda value: value + amount)

    def to(self, device: torch.device) -> DiagonalCurvature:
        """Return H on a device."""
        return self._each(lambda value: value.to(device))

    def form(self, stacks: Sequence[tuple[str, ...]] | None = None) -> DiagonalForm:
        """Return H as a quadratic form; see `Curvature.form`."""
        if stacks is None:
            return DiagonalForm(list(self.values.values()))
        return DiagonalForm([_stacked([self.values[name] for name in names]) for names in stacks])

    def tensors(self) -> dict[str, Tensor]:
        """Return F by weight name."""
        return self.values

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> DiagonalCurvature:
        """Return the curvature with these diagonals by weight name."""
        return cls(tensors)

    def _each(self, change: Callable[[Tensor], Tensor]) -> DiagonalCurvature:
        return DiagonalCurvature({name: change(value) for name, value in self.values.items()})


def _stacked(values: list[Tensor]) -> Tensor:
    return torch.stack(values) if len(values) > 1 else values[0][None]  # one value needs no copy


@dataclass(frozen=True)
class DiagonalForm:
    """A diagonal curvature as a quadratic form; see `QuadraticForm`.

    Attributes:
        values: F of each stack, in the shape of its displacement.
    """

    values: list[Tensor]

    def product(self, displacements: Sequence[Matrices]) -> list[Tensor]:
        """Return F * delta."""
        return list(torch._foreach_mul([dense(delta) for delta in displacements], self.values))

    def value(self, displacements: Sequence[Matrices]) -> Tensor:
        """Return sum F delta^2."""
        pairs = zip(self.values, map(dense, displacements), strict=True)
        return torch.stack([(value * delta * delta).sum() for value, delta in pairs]).sum()

    def largest_eigenvalue(self) -> float:
        """Return the largest F."""
        return max(float(value.max()) for value in self.values)
