"""A ViT linearised at its pre-trained weights, without and with a classifier.

The features are phi_lin(x; tau) = phi(x; theta_0) + J_phi(x) tau.

J is the derivative by theta at theta_0. `LinearisedFeatures` has the features phi alone. `LinearisedViT` has a
classifier W, b as well, which is linearised with it: f_lin(x; tau) = f(x; theta_0) + J(x) tau,

    f = W phi + b,    J tau = W (J_phi tau) + tau_W phi + tau_b,

The gradient of a loss by tau is J^T r, with r its gradient by f_lin: an ordinary backward pass of f at theta_0,
because f_lin is affine in tau. So one forward pass in dual numbers gives f and J tau, and one backward pass through its
first half gives the gradient, without second derivatives. The same holds for phi_lin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from trainables.config import Precision
from trainables.heads import Head
from trainables.precision import features

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer

CLASSIFIER = ("classifier.weight", "classifier.bias")
CLASS_TOKEN = "cls_token"  # timm's name
Vector = dict[str, Tensor]  # a task vector: name of a weight to its tau, in the same shape


class LinearisedFeatures:
    """The features of a linearised network; every call is given a task vector.

    Task vectors cover weights and biases of qkv, proj, fc1 and fc2, and the affine parts of all norms; with
    `class_token` also the class token of a network that has one. The patch embedding and positions are not part of
    them.

    The ViT is loaded with `attention="plain"`, and frozen here. The precision is that of forward passes.
    """

    def __init__(
        self, vit: VisionTransformer, precision: Precision, device: torch.device, *, class_token: bool = False
    ) -> None:
        self.precision = precision
        self.device = device
        from trainables.backbones.linearised import dual_block  # imports timm, which takes two seconds

        self.compilable = dual_block.write_blocks_out(vit)  # as no block needs torch's forward mode
        self.vit = vit.requires_grad_(False)
        # Leaves of a graph that share the weights' memory: J^T r is the gradient by them.
        weights = tangent_weights(vit, class_token=class_token)
        self.theta_0 = {name: weight.detach().requires_grad_() for name, weight in weights.items()}

    def zero(self) -> Vector:
        """Return tau = 0."""
        return {name: torch.zeros_like(weight, requires_grad=False) for name, weight in self.theta_0.items()}

    @torch.no_grad()
    def features(self, images: Tensor, tau: Vector) -> Tensor:
        """Return phi_lin: `(b, c, h, w)` to `(b, d)`."""
        phi, derivative = self._features(images, tau)
        return phi + derivative

    def feature_gradients(
        self, images: Tensor, tau: Vector, loss: Callable[[Tensor], Tensor], others: Sequence[Tensor] = ()
    ) -> tuple[Tensor, Vector, tuple[Tensor, ...]]:
        """Return a loss of phi_lin `(b, d)`, detached, and its gradients by every part of tau and by `others`."""
        phi, derivative = self._features(images, tau)
        moved = (phi.detach() + derivative.detach()).requires_grad_()
        value = loss(moved)
        upstream, *rest = torch.autograd.grad(value, (moved, *others))
        inner = torch.autograd.grad(phi, list(self.theta_0.values()), upstream)
        return value.detach(), dict(zip(self.theta_0, inner, strict=True)), tuple(rest)

    def _features(self, images: Tensor, tau: Vector) -> tuple[Tensor, Tensor]:
        """Return phi and J_phi tau, `(b, d)` each."""
        with forward_ad.dual_level():
            duals = {name: forward_ad.make_dual(leaf, tau[name].detach()) for name, leaf in self.theta_0.items()}
            at_theta_0 = partial(functional_call, self.vit, duals, tie_weights=False)  # each name has a tau of its own
            both = features(at_theta_0, images, self.precision, self.device)
            value, derivative = forward_ad.unpack_dual(both)
            assert derivative is not None
            return value, derivative


class LinearisedViT(LinearisedFeatures):
    """The linearised network with its classifier W `(C, d)`, b `(C,)`, whose rows are a part of task vectors."""

    def __init__(self, vit: VisionTransformer, head: Head, precision: Precision, device: torch.device) -> None:
        super().__init__(vit, precision, device)
        self.head = head

    def zero(self) -> Vector:
        """Return tau = 0."""
        return super().zero() | {
            name: torch.zeros_like(part, requires_grad=False) for name, part in zip(CLASSIFIER, self.head, strict=True)
        }

    @torch.no_grad()
    def logits(self, images: Tensor, tau: Vector) -> Tensor:
        """Return f_lin: `(b, c, h, w)` to `(b, C)`."""
        return self._classified(*self._features(images, tau), tau)

    def gradients(self, images: Tensor, tau: Vector, loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, Vector]:
        """Return a loss of f_lin, detached, and its gradient by every part of tau; `loss` maps `(b, C)` to a scalar."""
        phi, derivative = self._features(images, tau)
        changing = {name: tau[name].detach().requires_grad_() for name in CLASSIFIER}
        derivative = derivative.detach().requires_grad_()
        value = loss(self._classified(phi.detach(), derivative, changing))
        upstream, *classifier = torch.autograd.grad(value, (derivative, *changing.values()))
        inner = torch.autograd.grad(phi, list(self.theta_0.values()), upstream)
        return value.detach(), dict(zip((*self.theta_0, *CLASSIFIER), (*inner, *classifier), strict=True))

    def _classified(self, phi: Tensor, derivative: Tensor, tau: Vector) -> Tensor:
        """Return f_lin of features and their derivative along tau."""
        return F.linear(phi + derivative, *self.head) + F.linear(phi, *(tau[name] for name in CLASSIFIER))


def tangent_layers(vit: nn.Module) -> dict[str, nn.Linear | nn.LayerNorm]:
    """Return the linear layers and norms that have tangents, blocks first, without the patch embedding."""
    return {
        name: module
        for name, module in vit.named_modules()
        if isinstance(module, nn.Linear | nn.LayerNorm) and name.startswith(("blocks.", "norm"))
    }


def tangent_weights(vit: nn.Module, *, class_token: bool = False) -> dict[str, Tensor]:
    """Return the weights of `tangent_layers`, and with `class_token` the class token if the network has one."""
    weights: dict[str, Tensor] = {
        f"{name}.{part}": weight
        for name, module in tangent_layers(vit).items()
        for part, weight in module.named_parameters(recurse=False)
    }
    token = getattr(vit, CLASS_TOKEN, None)
    return {**weights, CLASS_TOKEN: token} if class_token and isinstance(token, Tensor) else weights
