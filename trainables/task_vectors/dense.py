"""Dense parametrisations, with one parameter per weight.

Full fine-tuning: tau is a free matrix, zero at the start. (IA)^3: tau = theta_0 * (l - 1), one factor per row of every
tuned weight, l = 1 at the start.

Source: the paper, section Algorithm(s). (IA)^3 scales the rows of the weight and not the bias; peft's own IA3 layer
scales the output, bias included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.backbones import tuned_layers
from trainables.task_vectors.base import Parametrisation
from trainables.task_vectors.low_rank import Matrices, dense

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer


class _DenseTauLinear(nn.Module):
    """A linear layer that builds its weight, base + scale * tau, in every forward pass; the bias is frozen.

    `base` is a copy, so that theta_0 does not change. At scale 0 tau is not built.
    """

    theta_0: Tensor
    base: Tensor
    bias: Tensor | None

    def __init__(self, layer: nn.Linear, vectors: DenseTaskVectors) -> None:
        super().__init__()
        self.register_buffer("theta_0", layer.weight.detach())
        self.register_buffer("base", layer.weight.detach().clone())
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach().clone())
        self.learned = nn.Parameter(vectors.start(self.theta_0))
        self.tau_of = vectors.tau_of
        self.scale = 0.0

    def tau(self) -> Tensor:
        return self.tau_of(self.learned, self.theta_0)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.base if self.scale == 0.0 else self.base + self.scale * self.tau()
        return F.linear(x, weight, self.bias)


class DenseTaskVectors:
    """Base of full and (IA)^3; each weight is a stack of its own."""

    parametrisation: Parametrisation
    part: str  # the parameter's name in `parameters_of`
    start: Callable[[Tensor], Tensor]  # of theta_0 `(out, in)`: the parameter at tau = 0
    tau_of: Callable[[Tensor, Tensor], Tensor]  # of the parameter and theta_0: the dense tau `(out, in)`
    gradient_of: Callable[[Tensor, Tensor], Tensor]  # of d/d tau `(out, in)` and theta_0: that by the parameter

    def __init__(self, model: VisionTransformer) -> None:
        targets = tuned_layers(model)
        model.requires_grad_(False)
        self.model: nn.Module = model
        self.theta_0 = {f"{name}.weight": layer.weight.detach() for name, layer in targets.items()}
        self.stacks: list[tuple[str, ...]] = [(name,) for name in self.theta_0]
        self.layers = {f"{name}.weight": _DenseTauLinear(layer, self) for name, layer in targets.items()}
        for name, layer in self.layers.items():
            model.set_submodule(name.removesuffix(".weight"), layer)

    @torch.no_grad()
    def begin(self, scale: float, generator: torch.Generator) -> None:
        """Start a new task vector at tau = 0; the start is not random, so `generator` is not read."""
        for layer in self.layers.values():
            layer.scale = scale
            layer.learned.copy_(self.start(layer.theta_0))

    def set_base(self, name: str, weight: Tensor) -> None:
        """Set the base of one tuned weight, `(out, in)`."""
        self.layers[name].base.copy_(weight)

    def disable(self) -> None:
        """Take tau out of the forward pass."""
        for layer in self.layers.values():
            layer.scale = 0.0

    def parameters(self) -> list[nn.Parameter]:
        """Return all trainable parameters, in the order of `stacks`."""
        return [layer.learned for layer in self.layers.values()]

    def dense(self, name: str) -> Tensor:
        """Return tau of one tuned weight, `(out, in)`, without scale; differentiable."""
        return self.layers[name].tau()

    def displacement(self, k: int) -> Tensor:
        """Return the dense tau of the weights of `stacks[k]`, `(1, out, in)`."""
        (name,) = self.stacks[k]
        return self.dense(name)[None]

    def vjp(self, k: int, gradient: Matrices) -> list[tuple[nn.Parameter, Tensor]]:
        """Return the parameter's gradient from d/d tau of `stacks[k]`, `(1, out, in)`."""
        (name,) = self.stacks[k]
        layer = self.layers[name]
        return [(layer.learned, self.gradient_of(dense(gradient)[0], layer.theta_0))]

    def parameters_of(self, name: str) -> dict[str, Tensor]:
        """Return the part of tau on one tuned weight; see `TaskVectors`."""
        return {self.part: self.layers[name].learned}


class FullTaskVectors(DenseTaskVectors):
    """Task vectors with one parameter per weight: tau `(out, in)`."""

    parametrisation: Parametrisation = "full"
    part = "tau"

    @staticmethod
    def start(theta_0: Tensor) -> Tensor:
        """Return tau = 0."""
        return torch.zeros_like(theta_0)

    @staticmethod
    def tau_of(parameter: Tensor, theta_0: Tensor) -> Tensor:
        """Return the parameter, which is tau itself."""
        return parameter

    @staticmethod
    def gradient_of(gradient: Tensor, theta_0: Tensor) -> Tensor:
        """Return d/d tau."""
        return gradient


class IA3TaskVectors(DenseTaskVectors):
    """Task vectors with one parameter per weight: l `(out,)`."""

    parametrisation: Parametrisation = "ia3"
    part = "l"

    @staticmethod
    def start(theta_0: Tensor) -> Tensor:
        """Return l = 1 for each row."""
        return torch.ones_like(theta_0[:, 0])

    @staticmethod
    def tau_of(parameter: Tensor, theta_0: Tensor) -> Tensor:
        """Return the dense tau `(out, in)` of l `(out,)` on theta_0 `(out, in)`."""
        return (parameter - 1)[:, None] * theta_0

    @staticmethod
    def gradient_of(gradient: Tensor, theta_0: Tensor) -> Tensor:
        """Return the row sums of gradient * theta_0."""
        return (gradient * theta_0).sum(dim=1)
