"""The curvature of a network's features at theta_0, J_phi^T J_phi, without head and labels: TAK's.

With R the tokens that a layer sees, a~ = [a; 1] its inputs (a without a bias), and g the gradient of v^T phi by its
outputs, where v is standard normal and drawn for each image,

    A = sum_images 1/R sum_tokens a~ a~^T,     G = mean over images of 1/R sum_tokens g g^T,
    F = sum_images u u^T,

with u the gradient of v^T phi by the weight or bias of a norm, or by the class token. The curvature of [W, b] is
G (x) A and that of each other weight F, both summed over images. All are unbiased for the v, of which `draws` are
averaged.

Source: TAK, https://arxiv.org/abs/2602.17385. Its public code sums the draws.

Notation: b images, d the width of phi, S draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from trainables.backbones.linearised.network import CLASS_TOKEN, tangent_layers, tangent_weights
from trainables.backbones.recording import Activations, recorded
from trainables.curvature.kronecker import Factors, KroneckerCurvature

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

_PARTS = ("layers", "affine")


@dataclass(frozen=True)
class FeatureCurvature:
    """The curvature of the features, summed over images."""

    layers: KroneckerCurvature  # of [W, b], (out, in + 1), or of W alone where there is no bias; by the layer's name
    affine: KroneckerCurvature  # of norms and of the class token, each weight as a row (1, d); by the weight's name
    examples: int  # number of images

    def plus(self, other: FeatureCurvature) -> FeatureCurvature:
        """Return the curvature of two tasks; see `KroneckerCurvature.plus`."""
        layers, affine = self.layers.plus(other.layers), self.affine.plus(other.affine)
        return FeatureCurvature(layers, affine, self.examples + other.examples)

    def to(self, device: torch.device) -> FeatureCurvature:
        """Return the curvature on a device."""
        return replace(self, layers=self.layers.to(device), affine=self.affine.to(device))

    def tensors(self) -> dict[str, Tensor]:
        """Return all of it as named tensors, for files: `from_tensors` reads them."""
        own = {f"{part}/{name}": value for part in _PARTS for name, value in getattr(self, part).tensors().items()}
        return {**own, "examples": torch.tensor(float(self.examples), dtype=torch.float64)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> FeatureCurvature:
        """Return the curvature that `tensors` describes, in the same memory; a missing tensor is a KeyError."""
        layers, affine = (
            KroneckerCurvature.from_tensors(
                {name.removeprefix(f"{part}/"): value for name, value in tensors.items() if name.startswith(f"{part}/")}
            )
            for part in _PARTS
        )
        return cls(layers, affine, int(tensors["examples"]))


def feature_curvature(
    model: VisionTransformer,
    batches: Iterable[Tensor],
    *,
    draws: int | None,
    generator: torch.Generator,
) -> FeatureCurvature:
    """Return the curvature of the features of all weights that `LinearisedFeatures` gives a tangent.

    Args:
        model: Backbone in eval mode, `(b, c, h, w)` to `(b, d)`; its weights and their gradients do not change.
        batches: Images `(b, c, h, w)`, at least one; read once, any batch sizes.
        draws: Backward passes per batch, S; None takes one for each of the d features, which is exact.
        generator: Source of the v, on the CPU.
    """
    modules, examples = tangent_layers(model), 0
    sums = _Sums(model, modules)
    with recorded(modules) as activations:
        for images in batches:
            examples += len(images)
            token = _tokens_of(model, len(images))
            with torch.enable_grad():  # the graph begins at the images, so that every layer is in it
                phi = functional_call(model, token, (images.detach().requires_grad_(),))
            vectors = _vectors(phi.detach(), draws, generator)
            sums.add_inputs(activations)
            _add_passes(sums, phi, activations, list(token.values()), vectors)
            activations.clear()
    return sums.curvature(examples)


def _tokens_of(model: nn.Module, count: int) -> dict[str, Tensor]:
    """Return the class token `(b, 1, d)` once for each image, so that each has a gradient; {} without one."""
    token = tangent_weights(model, class_token=True).get(CLASS_TOKEN)
    return {} if token is None else {CLASS_TOKEN: token.detach().expand(count, -1, -1).clone().requires_grad_()}


def _vectors(phi: Tensor, draws: int | None, generator: torch.Generator) -> Tensor:
    """Return v of all passes, `(S, b, d)`; the sum of their outer products estimates the identity."""
    if draws is None:
        return torch.eye(phi.shape[1], dtype=phi.dtype, device=phi.device)[:, None].expand(-1, len(phi), -1)
    v = torch.randn(len(phi), draws, phi.shape[1], generator=generator)  # image by image
    return v.transpose(0, 1).to(phi) / draws**0.5


def _add_passes(sums: _Sums, phi: Tensor, activations: Activations, tokens: Sequence[Tensor], vectors: Tensor) -> None:
    outputs = [output for _, output in activations.values()]
    for k, vector in enumerate(vectors):
        found = torch.autograd.grad(phi, [*outputs, *tokens], vector, retain_graph=k + 1 < len(vectors))
        for name, gradient in zip(activations, found, strict=False):
            sums.add_gradient(name, activations[name][0], gradient)
        if tokens:
            sums.add_outer(CLASS_TOKEN, found[-1][:, 0])


class _Sums:
    """The sums over images of one pass over the data."""

    def __init__(self, model: nn.Module, modules: dict[str, nn.Linear | nn.LayerNorm]) -> None:
        self.modules = modules
        weights = tangent_weights(model, class_token=True)
        linear = {name: module for name, module in modules.items() if isinstance(module, nn.Linear)}
        affine = {name: weight for name, weight in weights.items() if name.rpartition(".")[0] not in linear}
        self.inputs = {
            name: layer.weight.new_zeros(2 * (layer.in_features + (layer.bias is not None),))
            for name, layer in linear.items()
        }
        self.outputs = {name: layer.weight.new_zeros(2 * (layer.out_features,)) for name, layer in linear.items()}
        self.squares = {name: weight.new_zeros(2 * (weight.shape[-1],)) for name, weight in affine.items()}

    def add_inputs(self, activations: Activations) -> None:
        """Add the inputs of all linear layers in a batch."""
        for name, total in self.inputs.items():
            a = _by_token(activations[name][0])
            if self.modules[name].bias is not None:
                a = F.pad(a, (0, 1), value=1.0)
            flat = a.flatten(0, 1)
            total.addmm_(flat.T, flat, alpha=1 / a.shape[1])

    def add_gradient(self, name: str, inputs: Tensor, gradient: Tensor) -> None:
        """Add the gradient of one pass by the outputs of a layer, `(b, ..., out)`."""
        module, g = self.modules[name], _by_token(gradient)
        if isinstance(module, nn.Linear):
            flat = g.flatten(0, 1)
            self.outputs[name].addmm_(flat.T, flat, alpha=1 / g.shape[1])
            return
        normalised = _by_token(F.layer_norm(inputs, module.normalized_shape, eps=module.eps))
        for part, each in (("weight", g * normalised), ("bias", g)):
            if f"{name}.{part}" in self.squares:
                self.add_outer(f"{name}.{part}", each.sum(1))

    def add_outer(self, name: str, gradient: Tensor) -> None:
        """Add the gradient of each image by a vector of weights, `(b, d)`."""
        self.squares[name].addmm_(gradient.T, gradient)

    def curvature(self, examples: int) -> FeatureCurvature:
        """Return the sums as a curvature."""
        layers = {
            name: Factors(inputs.detach()[None], self.outputs[name].detach()[None] / examples)
            for name, inputs in self.inputs.items()
        }
        affine = {name: Factors(value.detach()[None], value.new_ones(1, 1, 1)) for name, value in self.squares.items()}
        return FeatureCurvature(KroneckerCurvature(layers), KroneckerCurvature(affine), examples)


def _by_token(values: Tensor) -> Tensor:
    """Return values of a layer as `(b, R, d)`."""
    return values.reshape(len(values), -1, values.shape[-1])
