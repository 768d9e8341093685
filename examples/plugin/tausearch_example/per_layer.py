"""A curvature with one number for each weight matrix: the mean of the Fisher's diagonal over its entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainables.curvature import add_passes
from trainables.heads import Head
from trainables.task_vectors.low_rank import Matrices, dense


@dataclass(frozen=True)
class PerLayer:
    """H_W = h_W I, h_W a tensor `()` for each weight by name."""

    h: dict[str, Tensor]

    @classmethod
    def estimate(
        cls,
        model: nn.Module,
        layers: dict[str, nn.Linear],
        head: Head,
        batches: Iterable[Tensor],
        *,
        passes: int | None,
        generator: torch.Generator,
    ) -> tuple[PerLayer, int]:
        """Return the sum over examples of the Fisher's mean diagonal, and their number; see `EstimatedCurvature`."""
        h = {f"{name}.weight": layer.weight.detach().new_zeros(()) for name, layer in layers.items()}

        def add(name: str, inputs: Tensor, gradients: Tensor, _: bool) -> None:
            squares = (gradients.mT @ inputs).square()  # (P, b, out, in)
            h[f"{name}.weight"] += squares.sum() / layers[name].weight.numel()

        examples = add_passes(model, layers, head, batches, add, passes=passes, generator=generator)
        return cls(h), examples

    def plus(self, other: PerLayer, weight: float = 1.0) -> PerLayer:
        """Return H + weight * H'."""
        return PerLayer({name: h + weight * other.h[name] for name, h in self.h.items()})

    def scaled(self, factor: float) -> PerLayer:
        """Return factor * H."""
        return self._each(lambda h: factor * h)

    def mean_over(self, examples: int) -> PerLayer:
        """Return H / examples."""
        return self._each(lambda h: h / examples)

    def shifted(self, amount: float) -> PerLayer:
        """Return H + amount * I."""
        return self._each(lambda h: h + amount)

    def to(self, device: torch.device) -> PerLayer:
        """Return H on a device."""
        return self._each(lambda h: h.to(device))

    def form(self, stacks: Sequence[tuple[str, ...]] | None = None) -> PerLayerForm:
        """Return H for displacements of each weight, or of stacks of them."""
        if stacks is None:
            return PerLayerForm(list(self.h.values()))
        return PerLayerForm([torch.stack([self.h[name] for name in names]) for names in stacks])

    def tensors(self) -> dict[str, Tensor]:
        """Return h by name."""
        return self.h

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> PerLayer:
        """Return the curvature with these numbers."""
        return cls(tensors)

    def _each(self, change: Callable[[Tensor], Tensor]) -> PerLayer:
        return PerLayer({name: change(h) for name, h in self.h.items()})


@dataclass(frozen=True)
class PerLayerForm:
    """The quadratic form: h `()` for a weight, `(L,)` for a stack of L weights of one shape."""

    h: list[Tensor]

    def product(self, displacements: Sequence[Matrices]) -> list[Tensor]:
        """Return H delta."""
        pairs = zip(self.h, map(dense, displacements), strict=True)
        return [h.reshape(*h.shape, *[1] * (delta.ndim - h.ndim)) * delta for h, delta in pairs]

    def value(self, displacements: Sequence[Matrices]) -> Tensor:
        """Return delta^T H delta."""
        pairs = zip(self.product(displacements), map(dense, displacements), strict=True)
        return torch.stack([(product * delta).sum() for product, delta in pairs]).sum()

    def largest_eigenvalue(self) -> float:
        """Return the largest h."""
        return max(float(h.max()) for h in self.h)
