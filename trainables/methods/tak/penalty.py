"""TAK's penalty: the curvature of the features on other images, at tau.

With N images of T_r reference tasks, A = sum A_s / N, G = sum_s G_s (each a mean over images), F = sum F_s / N, and
D = [tau_W, tau_b],

    strength (sum over layers of tr(G D A D^T) + affine * sum over norms and class token of tau^T F tau).

It is the first-order drift of the features on those images, |J_phi tau|^2, with averaged factors.

Source: TAK, https://arxiv.org/abs/2602.17385, eq. (8); models/tak.py of mammoth, whose final projection a ViT has not.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from trainables.backbones.linearised.network import Vector
from trainables.curvature import FeatureCurvature


class FeaturePenalty:
    """The penalty of one task, on the device of the curvature."""

    def __init__(self, curvature: FeatureCurvature, strength: float, affine: float) -> None:
        layers, others = (each.mean_over(curvature.examples) for each in (curvature.layers, curvature.affine))
        self.layers, self.others = list(layers.factors), list(others.factors)
        self.layers_form = layers.scaled(strength * layers.tasks).form()  # TAK sums G, where the curvature has its mean
        self.others_form = others.scaled(strength * affine).form()

    @torch.no_grad()
    def value(self, tau: Mapping[str, Tensor]) -> float:
        """Return the penalty of a task vector."""
        value = self.layers_form.value(self._weights_with_biases(tau))
        return float(value + self.others_form.value(self._rows(tau)) if self.others else value)

    @torch.no_grad()
    def gradients(self, tau: Mapping[str, Tensor]) -> Vector:
        """Return the gradient by every part of the task vector that has a curvature."""
        found: Vector = {}
        for name, product in zip(self.layers, self.layers_form.product(self._weights_with_biases(tau)), strict=True):
            assert isinstance(product, Tensor)
            width = tau[f"{name}.weight"].shape[1]
            found[f"{name}.weight"] = 2 * product[:, :width]
            if product.shape[1] > width:
                found[f"{name}.bias"] = 2 * product[:, width]
        for name, product in zip(self.others, self.others_form.product(self._rows(tau)), strict=True):
            assert isinstance(product, Tensor)
            found[name] = 2 * product.view_as(tau[name])
        return found

    def _weights_with_biases(self, tau: Mapping[str, Tensor]) -> list[Tensor]:
        """Return [tau_W, tau_b] of every layer, `(out, in + 1)`; tau_W where the layer has no bias."""
        weights = [(tau[f"{name}.weight"], tau.get(f"{name}.bias")) for name in self.layers]
        return [weight if bias is None else torch.cat([weight, bias[:, None]], 1) for weight, bias in weights]

    def _rows(self, tau: Mapping[str, Tensor]) -> list[Tensor]:
        return [tau[name].reshape(1, -1) for name in self.others]
