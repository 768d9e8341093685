"""The contract of a curvature: how a regulariser weighs a displacement of the weights.

Notation: W is one weight, of any shape; L weights of one shape form a stack `(L, *shape)`; delta is a displacement of
the weights, a tensor for each weight or stack; H is the curvature.

H is symmetric, positive semidefinite and block-diagonal, a block for each weight: with delta_W the flattened
displacement of W,

    delta^T H delta = sum_W delta_W^T H_W delta_W,      gradient of 1/2 delta^T H delta = H delta.

So that tasks can be added up, H is a sum over examples, such as J^T (diag(p) - p p^T) J of each, with J the derivative
of the logits by the weights. A regulariser uses its mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from trainables.errors import InputError
from trainables.heads import Head
from trainables.task_vectors.low_rank import Matrices
from trainables.user_code import kind_of, require_members


class QuadraticForm(Protocol):
    """A curvature prepared for many displacements of the same weights or stacks.

    Displacements and products are lists, in the order of the stacks that `Curvature.form` was given. A stack of
    matrices may come as a `LowRank`.
    """

    def product(self, displacements: Sequence[Matrices]) -> Sequence[Matrices]:
        """Return H delta in new tensors of the shapes of delta; that of a `LowRank` may be one, too."""

    def value(self, displacements: Sequence[Matrices]) -> Tensor:
        """Return delta^T H delta, a scalar tensor `()`."""

    def largest_eigenvalue(self) -> float:
        """Return the largest eigenvalue of H.

        A decoupled step of size c along H delta is explicit Euler: it is unstable where c times the eigenvalue exceeds
        2.
        """


class Curvature(Protocol):
    """A curvature H of named weights. Its methods return new objects and change none; they may share memory.

    `testing.check_curvature` checks an implementation against this contract.
    """

    def plus(self, other: Self, weight: float = 1.0) -> Self:
        """Return H + weight * H', with H' of the same weights.

        The memory is that of one of both, so that a sequence of tasks takes constant memory. An implementation that
        cannot represent the sum approximates it, and says how; the order of tasks does not matter to it.
        """

    def scaled(self, factor: float) -> Self:
        """Return factor * H; the factor is not negative."""

    def mean_over(self, examples: int) -> Self:
        """Return H / examples."""

    def shifted(self, amount: float) -> Self:
        """Return H + amount * I; the amount is not negative."""

    def to(self, device: torch.device) -> Self:
        """Return H on a device."""

    def form(self, stacks: Sequence[tuple[str, ...]] | None = None) -> QuadraticForm:
        """Return H as a quadratic form.

        Args:
            stacks: Names of weights that share a tensor `(L, *shape)` of a displacement, L their number. None takes
                every weight by itself, in its own shape and in the order of the curvature's names.
        """

    def tensors(self) -> dict[str, Tensor]:
        """Return all of H as named tensors, for files: `from_tensors` reads them."""

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> Self:
        """Return the curvature that `tensors` describes, in the same memory and in their order."""


class EstimatedCurvature(Curvature, Protocol):
    """A curvature of the tuned weights that a run can name: `--set curvature=NAME`."""

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
    ) -> tuple[Self, int]:
        """Return the curvature of linear layers at theta_0, summed over examples, and the number of examples.

        Its weights are named `"<layer>.weight"`, in the order of `layers`, and are `(out, in)`. H is in nats per unit
        of weight squared. Arguments and errors are those of `add_passes`, which gives the backward passes.
        """


def checked_estimate(what: str, answer: object) -> tuple[Curvature, int]:
    """Return what `estimate` returned; no curvature and number of examples is an InputError that begins with `what`."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise InputError(f"{what}: estimate must return (curvature, number of examples), got {kind_of(answer)}")
    curvature, examples = answer
    require_members(f"{what}: estimate", type(curvature), Curvature)
    if isinstance(examples, bool) or not isinstance(examples, int) or examples < 1:
        raise InputError(f"{what}: estimate must return the number of examples, got {examples!r}")
    return curvature, examples


@dataclass(frozen=True)
class TaskCurvature:
    """The curvature of one task, over its own training images.

    Attributes:
        mean: H of the tuned weights by name, the mean over these images.
        examples: The number of these images.
    """

    mean: Curvature
    examples: int
