"""The true diagonal Fisher at theta_0, of the tuned weights and of the head.

F_i = E_x E_{y ~ p(.|x)} [(d log p(y|x) / d theta_i)^2], p the softmax over all classes seen so far (the paper,
eq. (fisher_definition)). The gradient of one example is summed over its tokens before it is squared.

Notation: b examples, n tokens, P backward passes.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from trainables.curvature import passes as backward
from trainables.curvature.diagonal import DiagonalCurvature
from trainables.heads import Head


def layer_fisher(
    model: nn.Module,
    layers: dict[str, nn.Linear],
    head: Head,
    batches: Iterable[Tensor],
    *,
    passes: int | None,
    generator: torch.Generator,
) -> tuple[DiagonalCurvature, int]:
    """Return the true Fisher's diagonal for linear layers, summed over examples, and the number of examples.

    Arguments and errors are those of `add_passes`. The sum is by `"<layer>.weight"`, `(out, in)`, in nats squared per
    unit of weight squared.
    """
    sums = {name: torch.zeros_like(layer.weight) for name, layer in layers.items()}

    def add(name: str, inputs: Tensor, gradients: Tensor, _: bool) -> None:
        if inputs.shape[1] == 1:  # an example's gradient is an outer product, and so is its square
            sums[name] += gradients[:, :, 0].square().sum(0).T @ inputs[:, 0].square()
            return
        for gradient in gradients:
            _add_squares(sums[name], gradient, inputs)

    examples = backward.add_passes(model, layers, head, batches, add, passes=passes, generator=generator)
    return DiagonalCurvature({f"{name}.weight": total.detach() for name, total in sums.items()}), examples


def head_fisher(features: Tensor, head: Head, rows: slice) -> DiagonalCurvature:
    """Return the mean true Fisher of some rows of a linear classifier, in closed form.

    Its names are `weight`, `(r, d)`, and `bias`, `(r,)`.

    d log p_k / d W_c = (1[k = c] - p_c) x, and its square has expectation p_c (1 - p_c) x^2 under p. Without features
    `(m, d)` the Fisher is zero.
    """
    weight, bias = head
    if len(features) == 0:
        return DiagonalCurvature({"weight": torch.zeros_like(weight[rows]), "bias": torch.zeros_like(bias[rows])})
    p = nn.functional.linear(features, weight, bias).softmax(1)[:, rows]
    spread = p * (1 - p)  # [m, r]
    return DiagonalCurvature({"weight": spread.T @ features**2 / len(features), "bias": spread.mean(0)})


def _add_squares(total: Tensor, gradients: Tensor, inputs: Tensor) -> None:
    """Add the squared gradient of each example: gradients `(b, n, out)` and inputs `(b, n, in)` of one layer."""
    chunk = max(1, backward.CHUNK_BYTES[total.device.type] // (total.numel() * total.element_size()))
    for gradient, x in zip(gradients.split(chunk), inputs.split(chunk), strict=True):
        per_example = gradient.transpose(1, 2) @ x  # [chunk, out, in], summed over the n tokens
        total += per_example.square_().sum(0)
