"""The diagonal curvature: one number for each weight, such as the diagonal of the Fisher.

F_i = E_x E_{y ~ p(.|x)} [(d log p(y|x) / d theta_i)^2], p the softmax over all classes seen so far (the paper,
eq. (fisher_definition)). The gradient of one example is summed over its tokens before it is squared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainables.curvature.passes import CHUNK_BYTES, add_passes
from trainables.heads import Head
from trainables.task_vectors.low_rank import Matrices, dense


@dataclass(frozen=True)
class DiagonalCurvature:
    """H = diag(F); sums over tasks are exact. See `Curvature`."""

    values: dict[str, Tensor]  # weight name to F in the weight's shape

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
    ) -> tuple[DiagonalCurvature, int]:
        """Return the true Fisher's diagonal, summed over examples; see `EstimatedCurvature.estimate`."""
        sums = {name: torch.zeros_like(layer.weight) for name, layer in layers.items()}

        def add(name: str, inputs: Tensor, gradients: Tensor, _: bool) -> None:
            if inputs.shape[1] == 1:  # an example's gradient is an outer product, and so is its square
                sums[name] += gradients[:, :, 0].square().sum(0).T @ inputs[:, 0].square()
                return
            for gradient in gradients:
                _add_squares(sums[name], gradient, inputs)

        examples = add_passes(model, layers, head, batches, add, passes=passes, generator=generator)
        return cls({f"{name}.weight": total.detach() for name, total in sums.items()}), examples

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


def _add_squares(total: Tensor, gradients: Tensor, inputs: Tensor) -> None:
    """Add the squared gradient of each example: gradients `(b, n, out)` and inputs `(b, n, in)` of one layer."""
    chunk = max(1, CHUNK_BYTES[total.device.type] // (total.numel() * total.element_size()))
    for gradient, x in zip(gradients.split(chunk), inputs.split(chunk), strict=True):
        per_example = gradient.transpose(1, 2) @ x  # [chunk, out, in], summed over the n tokens
        total += per_example.square_().sum(0)


def _stacked(values: list[Tensor]) -> Tensor:
    return torch.stack(values) if len(values) > 1 else values[0][None]  # one value needs no copy


@dataclass(frozen=True)
class DiagonalForm:
    """A diagonal curvature as a quadratic form; see `QuadraticForm`."""

    values: list[Tensor]  # F of each stack, in the shape of its displacement

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
