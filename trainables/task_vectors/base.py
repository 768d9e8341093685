"""The contract of a parametrisation of the task vector tau_t, and the base of dense parametrisations.

Notation: W is one tuned weight matrix `(out, in)`, theta_0 its pre-trained value, tau the task vector's part on it. A
forward pass uses `base + scale * tau`. Individual training (ITA) has base = theta_0 and scale = 1, ensemble training
(IEL) base = theta_0 + (1/t) sum_{s<t} tau_s and scale = 1/t, evaluation the composed base and scale = 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.backbones import tuned_layers

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer


Parametrisation = Literal["full", "lora", "ia3", "tangent"]


class TaskVectors(Protocol):
    """A ViT whose tuned weights are `base + scale * tau`, with tau parametrised in one way.

    Attributes:
        parametrisation: The name of the parametrisation; `parameters_of` depends on it.
        model: The network, `(b, c, h, w)` to CLS features `(b, d)`. All other weights are frozen.
        theta_0: Tuned weight name to its pre-trained value `(out, in)`.
        stacks: Names of the tuned weights, grouped by shared parameter tensors; the weights of a stack have one shape.
    """

    parametrisation: Parametrisation
    model: nn.Module
    theta_0: dict[str, Tensor]
    stacks: list[tuple[str, ...]]

    def begin(self, scale: float, generator: torch.Generator) -> None:
        """Start a new task vector at tau = 0, with the given scale in the forward pass."""
        ...

    def set_base(self, name: str, weight: Tensor) -> None:
        """Set the base of one tuned weight, `(out, in)`."""
        ...

    def disable(self) -> None:
        """Take tau out of the forward pass: the network is its base."""
        ...

    def parameters(self) -> list[nn.Parameter]:
        """Return all trainable parameters, in the order of `stacks`."""
        ...

    def dense(self, name: str) -> Tensor:
        """Return tau of one tuned weight as a matrix `(out, in)`, without scale; differentiable."""
        ...

    def dense_stack(self, k: int) -> Tensor:
        """Return the dense tau of the L weights of `stacks[k]`, `(L, out, in)`; read only."""
        ...

    def vjp(self, k: int, gradient: Tensor) -> list[tuple[nn.Parameter, Tensor]]:
        """Return the parameters' gradients, in closed form, from d/d tau of `stacks[k]`, `(L, out, in)`."""
        ...

    def parameters_of(self, name: str) -> dict[str, Tensor]:
        """Return the parts of tau on one tuned weight, without scale, by the parametrisation's names.

        "full": `tau` `(out, in)`. "lora": `A` `(r, in)` and `B` `(out, r)`. "ia3": `l` `(out,)`. They are views of the
        parameters, so the next task changes them.
        """
        ...


class DenseTauLinear(nn.Module):
    """A linear layer that builds its weight from base and tau in every forward pass; the bias is frozen.

    Attributes:
        base: The pre-trained weight, `(out, in)`; a copy, so that theta_0 does not change.
        bias: The frozen bias, `(out,)`, or None.
        scale: Factor of tau in the forward pass; at 0 tau is not built.
    """

    base: Tensor
    bias: Tensor | None

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.register_buffer("base", layer.weight.detach().clone())
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach().clone())
        self.scale = 0.0

    def tau(self) -> Tensor:
        """Return the dense tau `(out, in)`."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Map `(..., in)` to `(..., out)`."""
        weight = self.base if self.scale == 0.0 else self.base + self.scale * self.tau()
        return F.linear(x, weight, self.bias)


def replace_tuned_layers(model: VisionTransformer, kind: type[DenseTauLinear]) -> dict[str, DenseTauLinear]:
    """Freeze the model and replace each tuned layer by one of `kind`; returns weight name to layer."""
    model.requires_grad_(False)
    replaced = {}
    for name, layer in tuned_layers(model).items():
        new = kind(layer)
        model.set_submodule(name, new)
        replaced[f"{name}.weight"] = new
    return replaced


class DenseTaskVectors:
    """Base of full and IA3: layers that add a dense tau to their weight.

    Each weight has one parameter and is a stack of its own. Subclasses define the first four attributes and `_vjp`.
    """

    parametrisation: Parametrisation
    part: str  # the parameter's name in `parameters_of`
    kind: type[DenseTauLinear]
    initial: float  # value of every parameter at tau = 0

    def __init__(self, model: VisionTransformer) -> None:
        self.theta_0 = {f"{name}.weight": layer.weight.detach() for name, layer in tuned_layers(model).items()}
        self.layers = replace_tuned_layers(model, self.kind)
        self.stacks: list[tuple[str, ...]] = [(name,) for name in self.theta_0]
        self.model: nn.Module = model

    def begin(self, scale: float, generator: torch.Generator) -> None:
        """Start a new task vector at tau = 0; the start is not random, so `generator` is not read."""
        for name in self.layers:
            self.layers[name].scale = scale
            nn.init.constant_(self._parameter(name), self.initial)

    def set_base(self, name: str, weight: Tensor) -> None:
        """Set the base of one tuned weight, `(out, in)`."""
        self.layers[name].base.copy_(weight)

    def disable(self) -> None:
        """Take tau out of the forward pass."""
        for layer in self.layers.values():
            layer.scale = 0.0

    def parameters(self) -> list[nn.Parameter]:
        """Return all trainable parameters, in the order of `stacks`."""
        return [self._parameter(name) for name in self.theta_0]

    def _parameter(self, name: str) -> nn.Parameter:
        (parameter,) = self.layers[name].parameters()
        return parameter

    def dense(self, name: str) -> Tensor:
        """Return tau of one tuned weight, `(out, in)`, without scale; differentiable."""
        return self.layers[name].tau()

    def dense_stack(self, k: int) -> Tensor:
        """Return the dense tau of the weights of `stacks[k]`, `(L, out, in)`."""
        (name,) = self.stacks[k]
        return self.dense(name)[None]

    def vjp(self, k: int, gradient: Tensor) -> list[tuple[nn.Parameter, Tensor]]:
        """Return the parameters' gradients from d/d tau of `stacks[k]`, `(L, out, in)`."""
        (name,) = self.stacks[k]
        return [(self._parameter(name), self._vjp(name, gradient[0]))]

    def _vjp(self, name: str, gradient: Tensor) -> Tensor:
        """Return the gradient of one weight's parameter from d/d tau, `(out, in)`."""
        raise NotImplementedError

    def parameters_of(self, name: str) -> dict[str, Tensor]:
        """Return the part of tau on one tuned weight; see `TaskVectors`."""
        return {self.part: self._parameter(name)}
