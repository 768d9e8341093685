"""Kronecker factors of the generalised Gauss-Newton matrix at theta_0, of the tuned weights.

With a the inputs of a linear layer (n tokens of an example) and g the gradients of all backward passes by its outputs,

    H = sum over examples of J^T (diag(p) - p p^T) J  ~  N G (x) A,     (G (x) A) vec(D) = vec(G D A),
    A = 1/N sum_examples 1/n sum_tokens a a^T,         G = 1/N sum_examples sum_tokens sum_passes g g^T.

It is exact for layers that see one token, where N = 1, or where G of an example does not depend on it. Tokens count as
independent of each other, so that their cross terms are left out.

Source: Martens and Grosse 2015, https://arxiv.org/abs/1503.05671; for layers that many tokens share ("expand"),
Eschenhagen et al. 2023, https://arxiv.org/abs/2311.00636. TAK (https://arxiv.org/abs/2602.17385) has G / n here.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from trainables.curvature.kronecker import Factors, KroneckerCurvature
from trainables.curvature.passes import add_passes
from trainables.heads import Head


def layer_factors(
    model: nn.Module,
    layers: dict[str, nn.Linear],
    head: Head,
    batches: Iterable[Tensor],
    *,
    passes: int | None,
    generator: torch.Generator,
    apart: bool = False,
) -> tuple[KroneckerCurvature, int]:
    """Return the Kronecker factors of linear layers, for the sum over examples, and the number of examples.

    Arguments and errors are those of `add_passes`. The factors are by `"<layer>.weight"`, in nats squared per unit of
    weight squared. `apart` is that of `KroneckerCurvature`.
    """
    inputs_sums = {name: layer.weight.new_zeros(2 * (layer.in_features,)) for name, layer in layers.items()}
    gradient_sums = {name: layer.weight.new_zeros(2 * (layer.out_features,)) for name, layer in layers.items()}

    def add(name: str, inputs: Tensor, gradients: Tensor, first: bool) -> None:
        if first:
            flat = inputs.flatten(0, 1)  # [b n, in]
            inputs_sums[name].addmm_(flat.T, flat, alpha=1 / inputs.shape[1])
        flat = gradients.flatten(0, 2)  # [P b n, out]
        gradient_sums[name].addmm_(flat.T, flat)

    examples = add_passes(model, layers, head, batches, add, passes=passes, generator=generator)
    factors = {
        f"{name}.weight": Factors(inputs_sums[name].detach()[None], gradient_sums[name].detach()[None] / examples)
        for name in layers
    }
    return KroneckerCurvature(factors, apart=apart), examples
