"""The contract of a parametrisation of the task vector tau_t.

Notation: W is one tuned weight matrix `(out, in)`, theta_0 its pre-trained value, tau the task vector's part on it. A
forward pass uses `base + scale * tau`. Individual training (ITA) has base = theta_0 and scale = 1, ensemble training
(IEL) base = theta_0 + (1/t) sum_{s<t} tau_s and scale = 1/t, evaluation the composed base and scale = 0.
"""

from __future__ import annotations

from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from trainables.task_vectors.low_rank import Matrices

Parametrisation = Literal["full", "lora", "ia3", "tangent", "feature-tangent"]


class TaskVectors(Protocol):
    """A ViT whose tuned weights are `base + scale * tau`, with tau parametrised in one way."""

    parametrisation: Parametrisation  # on which `parameters_of` depends
    model: nn.Module  # the network, (b, c, h, w) to CLS features (b, d); all other weights are frozen
    theta_0: dict[str, Tensor]  # tuned weight name to its pre-trained value (out, in)
    stacks: list[tuple[str, ...]]  # names of the tuned weights of one shape that share parameter tensors

    def begin(self, scale: float, generator: torch.Generator) -> None:
        """Start a new task vector at tau = 0, with the given scale in the forward pass."""

    def set_base(self, name: str, weight: Tensor) -> None:
        """Set the base of one tuned weight, `(out, in)`."""

    def disable(self) -> None:
        """Take tau out of the forward pass: the network is its base."""

    def parameters(self) -> list[nn.Parameter]:
        """Return all trainable parameters, in the order of `stacks`."""

    def dense(self, name: str) -> Tensor:
        """Return tau of one tuned weight as a matrix `(out, in)`, without scale; differentiable."""

    def displacement(self, k: int) -> Matrices:
        """Return tau of the L weights of `stacks[k]`, `(L, out, in)`; read only."""

    def vjp(self, k: int, gradient: Matrices) -> list[tuple[nn.Parameter, Tensor]]:
        """Return the parameters' gradients, in closed form, from d/d tau of `stacks[k]`, `(L, out, in)`."""

    def parameters_of(self, name: str) -> dict[str, Tensor]:
        """Return the parts of tau on one tuned weight, without scale, by the parametrisation's names.

        "full": `tau` `(out, in)`. "lora": `A` `(r, in)` and `B` `(out, r)`. "ia3": `l` `(out,)`. They are views of the
        parameters, so the next task changes them.
        """
