"""A ViT with its classifier, linearised at its pre-trained weights: f_lin(x; tau) = f(x; theta_0) + J(x) tau.

J is the derivative of f by theta at theta_0. With features phi and the classifier W, b that is

    f = W phi + b,    J tau = W (J_phi tau) + tau_W phi + tau_b,

and the gradient of a loss by tau is J^T r, with r its gradient by f_lin: an ordinary backward pass of f at theta_0,
because f_lin is affine in tau. So one forward pass in dual numbers gives f and J tau, and one backward pass through its
first half gives the gradient, without second derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
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
Vector = dict[str, Tensor]  # a task vector: name of a weight to its tau, in the same shape


class LinearisedViT:
    """The linearised network; every call is given a task vector.

    Task vectors cover weights and biases of qkv, proj, fc1 and fc2, the affine parts of all norms, and the classifier.
    The patch embedding, positions and the class token are not part of them.

    The ViT is loaded with `attention="plain"`, and frozen here. The head is W `(C, d)` and b `(C,)`, the classifier at
    theta_0. The precision is that of forward passes.
    """

    def __init__(self, vit: VisionTransformer, head: Head, precision: Precision, device: torch.device) -> None:
        self.precision = precision
        self.device = device
        self.vit = vit.requires_grad_(False)
        self.head = head
        # Leaves of a graph that share the weights' memory: J^T r is the gradient by them.
        self.theta_0 = {name: weight.detach().requires_grad_() for name, weight in _tangent_weights(vit).items()}

    def zero(self) -> Vector:
        """Return tau = 0."""
        weights = {**self.theta_0, **dict(zip(CLASSIFIER, self.head, strict=True))}
        return {name: torch.zeros_like(weight, requires_grad=False) for name, weight in weights.items()}

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

    def _features(self, images: Tensor, tau: Vector) -> tuple[Tensor, Tensor]:
        """Return phi and J_phi tau, `(b, d)` each."""
        with forward_ad.dual_level():
            duals = {name: forward_ad.make_dual(leaf, tau[name].detach()) for name, leaf in self.theta_0.items()}
            both = features(partial(functional_call, self.vit, duals), images, self.precision, self.device)
            value, derivative = forward_ad.unpack_dual(both)
            assert derivative is not None
            return value, derivative

    def _classified(self, phi: Tensor, derivative: Tensor, tau: Vector) -> Tensor:
        """Return f_lin of features and their derivative along tau."""
        return F.linear(phi + derivative, *self.head) + F.linear(phi, *(tau[name] for name in CLASSIFIER))


def _tangent_weights(vit: VisionTransformer) -> dict[str, Tensor]:
    """Return the weights of linear layers and norms, blocks first, without the patch embedding."""
    return {
        f"{name}.{part}": weight
        for name, module in vit.named_modules()
        if isinstance(module, nn.Linear | nn.LayerNorm) and name.startswith(("blocks.", "norm"))
        for part, weight in module.named_parameters(recurse=False)
    }
