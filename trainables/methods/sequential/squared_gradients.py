"""Squares of per-example gradients, summed over examples, with memory for a few examples at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor
from torch.func import grad, vmap

Weights = Mapping[str, Tensor]
Value = Callable[[Weights, Tensor, Tensor], Tensor]  # weights, image (c, h, w), label () to scalar

GRADIENT_BYTES = {"cpu": 2**29, "cuda": 2**32}  # of per-example gradients at a time


def add_squared_gradients(total: Weights, value: Value, weights: Weights, x: Tensor, y: Tensor) -> None:
    """Add sum_n (d value(theta, x_n, y_n) / d theta)^2 to a running total, in place.

    `value` is a deterministic function of the weights and one example; x is `(b, c, h, w)`, y `(b,)`. Gradients are
    squared example by example, so the result does not depend on the batches.
    """
    per_example = vmap(grad(value), in_dims=(None, 0, 0))
    for images, labels in zip(*(part.split(examples_at_once(weights)) for part in (x, y)), strict=True):
        for name, gradients in per_example(dict(weights), images, labels).items():
            total[name].add_(gradients.square().sum(0))  # not squared in place: some gradients are views of others


def examples_at_once(weights: Weights) -> int:
    """Return the number of examples whose gradients of all weights fit in `GRADIENT_BYTES`; at least one."""
    size = sum(weight.numel() * weight.element_size() for weight in weights.values())
    (device,) = {weight.device.type for weight in weights.values()}
    return max(1, GRADIENT_BYTES[device] // size)
