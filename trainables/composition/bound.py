"""The risk of a composed model against its bound, and the error of the second-order approximation of the loss.

Source: the paper, eq. (jensencl) and Theorem 1. For a loss that is quadratic in the tuned weights, weights w_t that sum
to 1 and the Hessian H at theta_0,

    l(theta_0 + sum_t w_t tau_t) = sum_t w_t l(theta_0 + tau_t) - Omega,
    Omega = 1/2 sum_{s < t} w_s w_t (tau_s - tau_t)^T H (tau_s - tau_t)
          = 1/2 [sum_t w_t tau_t^T H tau_t - tau_P^T H tau_P],   tau_P = sum_t w_t tau_t.

Heads are the same on both sides, so that only tuned weights differ. The remaining difference is the loss's third order
and beyond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.composition.networks import ComposedNetwork
from trainables.composition.pool import VectorPool
from trainables.data import ImageSet
from trainables.heads import Head

CURVATURE_BATCH = 64
Risk = Callable[[ComposedNetwork], float]


@dataclass(frozen=True)
class BoundPoint:
    """Both sides of Theorem 1 with every task vector scaled by one factor; risks are mean cross-entropies, nats."""

    scale: float  # c
    composed: float  # l(theta_0 + c sum_t w_t tau_t)
    bound: float  # sum_t w_t l(theta_0 + c tau_t)
    omega: float  # c^2 Omega

    @property
    def second_order(self) -> float:
        """The composed risk by the second-order approximation."""
        return self.bound - self.omega

    @property
    def gap(self) -> float:
        """Composed risk minus its second-order approximation, nats."""
        return self.composed - self.second_order


def theorem_1(
    network: ComposedNetwork,
    pool: VectorPool,
    images: Sequence[ImageSet],
    scales: Sequence[float],
    risk: Risk,
    tick: Callable[[int], None] = lambda count: None,
) -> list[BoundPoint]:
    """Return both sides of Theorem 1 for the uniform composition, a point for each scale c of all task vectors.

    The images define the Hessian, and `risk` measures the network's risk on the same images. The network's attention
    must be "plain". `tick` is called with 1 after every risk and every curvature.
    """
    count, head = len(pool), pool.head()
    alone = [[float(s == t) for s in range(count)] for t in range(count)]
    uniform = [1 / count] * count

    def measured(weights: Sequence[float], scale: float) -> float:
        network.compose(pool, [scale * weight for weight in weights], head)
        tick(1)
        return risk(network)

    def curved(weights: Sequence[float]) -> float:
        network.compose(pool, weights, head)
        tick(1)
        direction = {name: weight - network.theta_0[name] for name, weight in network.weights.items()}
        return along_hessian(network, direction, head, images)

    omega = 0.5 * (sum(curved(weights) for weights in alone) / count - curved(uniform))
    return [
        BoundPoint(
            scale=scale,
            composed=measured(uniform, scale),
            bound=sum(measured(weights, scale) for weights in alone) / count,
            omega=scale**2 * omega,
        )
        for scale in scales
    ]


def along_hessian(
    network: ComposedNetwork, direction: dict[str, Tensor], head: Head, images: Sequence[ImageSet]
) -> float:
    """Return tau^T H tau, exact: two derivatives along the line theta_0 + s tau.

    H is the Hessian at theta_0 of the mean cross-entropy on the images. The network's attention must be "plain".
    """
    total = 0.0
    for each in images:
        for batch in each.batches(CURVATURE_BATCH, None, shuffle=False, device=network.device):
            total += _second_derivative(network, direction, head, batch.x, batch.y)
    return total / sum(map(len, images))


def _second_derivative(
    network: ComposedNetwork, direction: dict[str, Tensor], head: Head, x: Tensor, y: Tensor
) -> float:
    """Return the second derivative of the summed cross-entropy along a direction, at theta_0."""
    step = torch.zeros((), dtype=x.dtype, device=x.device, requires_grad=True)
    weights = {name: network.theta_0[name] + step * tau for name, tau in direction.items()}
    logits = F.linear(network.features_at(weights, x), head[0].to(x.device), head[1].to(x.device))
    (slope,) = torch.autograd.grad(F.cross_entropy(logits, y, reduction="sum"), step, create_graph=True)
    (second,) = torch.autograd.grad(slope, step)
    return float(second)
