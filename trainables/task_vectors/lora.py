"""LoRA: tau = B A. B = 0 at the start, so tau = 0.

Source: Hu et al. 2021, https://arxiv.org/abs/2106.09685. The scale alpha / r of that paper is 1. Rank r for proj, fc1
and fc2, 3 r for qkv, whose weight is three matrices in one.

The factors of all layers of one shape share one tensor, because starting the products of small layers takes longer than
computing them: a step of the embedded ViT has 24 products instead of 96.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainables.backbones import tuned_layers
from trainables.task_vectors.base import Parametrisation
from trainables.task_vectors.low_rank import LowRank, Matrices

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

Init = Literal["gaussian", "uniform"]
BUILT_BELOW = 2  # times the multiplications of the factors


def lora_tau(a: Tensor, b: Tensor) -> Tensor:
    """Return the dense tau `(out, in)` of A `(r, in)` and B `(out, r)`."""
    return b @ a


def is_built(weights: int, factors: int, device: torch.device) -> bool:
    """Return whether building so many weights of their factors takes less time than products with the factors.

    Per token, forward and backward, the factors cost 3 r (in + out) multiplications and several more passes over the
    output; a built weight costs its own gradient instead, in * out. Narrow layers with a large r are cheaper built, at
    about the factor `BUILT_BELOW`: all of the embedded ViT's, none of ViT-B's. In bf16 on a GPU products are so fast
    that the passes decide.
    """
    in_bf16 = device.type == "cuda" and torch.is_autocast_enabled("cuda")
    return in_bf16 or weights < BUILT_BELOW * 3 * factors


class _LoRALinear(nn.Module):
    """A linear layer that gets its weight for each forward pass of the network; its bias is frozen."""

    bias: Tensor | None

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach())
        self.weight: Tensor | None = None  # of this pass, (out, in); None outside of one
        self.factors: tuple[Tensor, Tensor] | None = None  # A and scale * B for this pass, unless the weight has them

    def forward(self, x: Tensor) -> Tensor:
        """Map `(..., in)` to `(..., out)`."""
        assert self.weight is not None, "there are weights inside the network's forward pass only"
        flat = x.flatten(0, -2)
        y = F.linear(flat, self.weight, self.bias)
        if self.factors is not None:
            a, b = self.factors
            y.addmm_(F.linear(flat, a), b.mT.to(y.dtype))  # in place saves a pass over the output each way
        return y.unflatten(0, x.shape[:-1])


class _Stack(nn.Module):
    """The tuned weights of L layers of one shape, built where `is_built` says so; else outputs get B (A x)."""

    base: Tensor  # frozen, (L, out, in)

    def __init__(self, layers: list[nn.Linear], rank: int) -> None:
        super().__init__()
        self.register_buffer("base", torch.stack([layer.weight.detach() for layer in layers]))
        count, out_features, in_features = self.base.shape
        self.a = nn.Parameter(self.base.new_zeros(count, rank, in_features))
        self.b = nn.Parameter(self.base.new_zeros(count, out_features, rank))
        self.scale = 0.0  # factor of tau in the forward pass; at 0 tau is not built
        self.layers = tuple(map(_LoRALinear, layers))  # in a tuple, as they are modules of the network

    def give(self) -> None:
        """Give the layers their weights for the next forward pass."""
        weights = self.base
        factors: list[tuple[Tensor, Tensor]] | list[None] = [None] * len(self.layers)
        if self.scale and is_built(self.base.numel(), self.a.numel() + self.b.numel(), self.base.device):
            with torch.autocast(self.base.device.type, enabled=False):  # a small tau is lost in a half-precision sum
                weights = torch.baddbmm(self.base, self.b, self.a, alpha=self.scale)
        elif self.scale:
            factors = list(zip(self.a.unbind(), (self.scale * self.b).unbind(), strict=True))
        for layer, weight, factor in zip(self.layers, weights.unbind(), factors, strict=True):
            layer.weight, layer.factors = weight, factor

    def take_back(self) -> None:
        """Drop the layers' weights: the graph holds the tensors that it needs."""
        for layer in self.layers:
            layer.weight = layer.factors = None


class LoRATaskVectors:
    """Task vectors with two parameters per stack of L weights: A `(L, r, in)` and B `(L, out, r)`.

    Args:
        model: The backbone; its tuned layers are replaced.
        rank: The rank r of the factors.
        init: The start of A. "gaussian": standard deviation 1/r, as the paper says and peft does; "uniform": within
            +-1/sqrt(r * in), as the authors' code does.
    """

    parametrisation: Parametrisation = "lora"

    def __init__(self, model: VisionTransformer, rank: int = 16, init: Init = "gaussian") -> None:
        targets = tuned_layers(model)
        model.requires_grad_(False)
        self.init = init
        self.model: nn.Module = model
        self.theta_0 = {f"{name}.weight": layer.weight.detach() for name, layer in targets.items()}
        alike: dict[tuple[int, ...], list[str]] = {}
        for name, layer in targets.items():
            alike.setdefault((3 * rank if name.endswith("qkv") else rank, *layer.weight.shape), []).append(name)
        self.stacks = [tuple(f"{name}.weight" for name in names) for names in alike.values()]
        self._stacks = []
        for (rank_here, *_), names in alike.items():
            self._stacks.append(_Stack([targets[name] for name in names], rank_here))
            for name, changed in zip(names, self._stacks[-1].layers, strict=True):
                model.set_submodule(name, changed)
        model.add_module("lora", nn.ModuleList(self._stacks))
        self._places = {name: (k, i) for k, names in enumerate(self.stacks) for i, name in enumerate(names)}
        model.register_forward_pre_hook(lambda *_: self._for_each(_Stack.give))
        model.register_forward_hook(lambda *_: self._for_each(_Stack.take_back))

    def _for_each(self, do: Callable[[_Stack], None]) -> None:
        for stack in self._stacks:
            do(stack)

    @torch.no_grad()
    def begin(self, scale: float, generator: torch.Generator) -> None:
        """Start a new task vector at tau = 0, with the given scale in the forward pass."""
        for stack in self._stacks:
            stack.scale = scale
            stack.b.zero_()
        for name in self.theta_0:
            a, _ = self.factors(name)
            rank, fan_in = a.shape
            start = torch.empty(a.shape, dtype=a.dtype)  # drawn on the CPU: the same start on every device
            if self.init == "gaussian":
                start.normal_(0, 1 / rank, generator=generator)
            else:
                bound = 1 / math.sqrt(rank * fan_in)
                start.uniform_(-bound, bound, generator=generator)
            a.copy_(start)

    @torch.no_grad()
    def set_base(self, name: str, weight: Tensor) -> None:
        """Set the base of one tuned weight, `(out, in)`."""
        k, i = self._places[name]
        self._stacks[k].base[i].copy_(weight)

    def disable(self) -> None:
        """Take tau out of the forward pass."""
        for stack in self._stacks:
            stack.scale = 0.0

    def parameters(self) -> list[nn.Parameter]:
        """Return all trainable parameters, in the order of `stacks`."""
        return [parameter for stack in self._stacks for parameter in (stack.a, stack.b)]

    def factors(self, name: str) -> tuple[Tensor, Tensor]:
        """Return A `(r, in)` and B `(out, r)` of one tuned weight, views of the parameters."""
        k, i = self._places[name]
        return self._stacks[k].a[i], self._stacks[k].b[i]

    def dense(self, name: str) -> Tensor:
        """Return tau of one tuned weight, `(out, in)`, without scale; differentiable."""
        return lora_tau(*self.factors(name))

    def displacement(self, k: int) -> LowRank:
        """Return the factors of tau of the L weights of `stacks[k]`."""
        return LowRank(self._stacks[k].b, self._stacks[k].a)

    def vjp(self, k: int, gradient: Matrices) -> list[tuple[nn.Parameter, Tensor]]:
        """Return gA = B^T g and gB = g A^T from g = d/d tau of `stacks[k]`; a `LowRank` is not made dense."""
        a, b = self._stacks[k].a, self._stacks[k].b
        if isinstance(gradient, LowRank):
            return [(a, (b.mT @ gradient.left) @ gradient.right), (b, gradient.left @ (gradient.right @ a.mT))]
        return [(a, b.mT @ gradient), (b, gradient @ a.mT)]

    def parameters_of(self, name: str) -> dict[str, Tensor]:
        """Return A and B of one tuned weight."""
        a, b = self.factors(name)
        return {"A": a, "B": b}
