"""Merging rules that weigh each task vector by its task's curvature: Fisher merging, and RegMean.

Departure of both: the curvature is that of pre-consolidation, at theta_0 and with the probed head. The papers take it
at the fine-tuned models. Like the other rules, both give the weighted sum where all curvatures are equal, and a
negative weight negates its tau.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from trainables.composition.rules import Merging, Parameter
from trainables.curvature import CurvatureKind, DiagonalCurvature, KroneckerCurvature


class Fisher:
    """Average each entry by the Fisher of each task, F_t, in the place of equal shares.

    tau = (sum_t |w_t|) (sum_t |w_t| (F_t + d) sign(w_t) tau_t) / (sum_t |w_t| (F_t + d)), entry by entry, with F_t the
    mean over the task's images and d = damping times the mean of all F_t of the weight. Large damping gives the
    weighted sum.

    Source: Matena and Raffel 2022, https://arxiv.org/abs/2111.09832, where d is a small constant.
    """

    parameters: ClassVar[Mapping[str, Parameter]] = {"damping": Parameter(1e-3, low=1e-6, high=100, log=True)}
    curvatures: ClassVar[tuple[CurvatureKind, ...]] = ("diagonal",)

    def merge(self, merging: Merging) -> dict[str, Tensor]:
        """Return the merged tau of each tuned weight, `(out, in)`."""
        return {name: self._merged(merging, name) for name in merging.names}

    def _merged(self, merging: Merging, name: str) -> Tensor:
        fishers = [_diagonal(merging, place, name) for place in range(len(merging.weights))]
        typical = float(torch.stack([fisher.double().mean() for fisher in fishers]).mean())
        damping = merging.parameters["damping"] * typical if typical else 1.0  # without any curvature all count alike
        above = torch.zeros(fishers[0].shape, dtype=torch.float64)
        below = torch.zeros_like(above)
        for fisher, tau, weight in zip(fishers, merging.taus, merging.weights, strict=True):
            share = abs(weight) * (fisher.double() + damping)
            above += math.copysign(1, weight) * share * (value := tau[name])
            below += share
        return (above / below * sum(map(abs, merging.weights))).to(value.dtype)


class RegMean:
    """Merge each linear layer so that its outputs on each task's inputs stay near those of that task's model.

    tau = (sum_t |w_t|) (sum_t sign(w_t) tau_t |w_t| A_t) (sum_t |w_t| A_t)^-1, with A_t `(in, in)` the mean of the
    layer's a a^T over the task's images, whose entries off the diagonal are multiplied by 1 - shrinkage.

    Source: Jin et al. 2023, https://arxiv.org/abs/2212.09849, where A_t is a sum over examples and 1 - shrinkage is
    alpha. The Kronecker factor G_t is not used.
    """

    parameters: ClassVar[Mapping[str, Parameter]] = {"shrinkage": Parameter(0.1, low=0, high=1, low_excluded=True)}
    curvatures: ClassVar[tuple[CurvatureKind, ...]] = ("kronecker",)

    def merge(self, merging: Merging) -> dict[str, Tensor]:
        """Return the merged tau of each tuned weight, `(out, in)`."""
        return {name: self._merged(merging, name) for name in merging.names}

    def _merged(self, merging: Merging, name: str) -> Tensor:
        above = torch.zeros(merging.taus[0][name].shape, dtype=torch.float64)
        below = torch.zeros(2 * (above.shape[1],), dtype=torch.float64)
        for place, (tau, weight) in enumerate(zip(merging.taus, merging.weights, strict=True)):
            share = abs(weight) * self._inputs(merging, place, name)
            above += math.copysign(1, weight) * (value := tau[name]).double() @ share
            below += share
        average = torch.linalg.solve(below, above, left=False)
        return (average * sum(map(abs, merging.weights))).to(value.dtype)

    def _inputs(self, merging: Merging, place: int, name: str) -> Tensor:
        """Return A_t with its smaller entries off the diagonal; on it a little more, for inputs that are always 0."""
        curvature, kept = merging.curvatures[place].mean, 1 - merging.parameters["shrinkage"]
        assert isinstance(curvature, KroneckerCurvature), "so the rule declares"
        inputs = curvature.factors[name].inputs.sum(0).double()
        diagonal = inputs.diagonal()
        ridge = 1e-9 * float(diagonal.mean()) or 1e-30  # without any input all count alike
        return kept * inputs + torch.diag((1 - kept) * diagonal + ridge)


def _diagonal(merging: Merging, place: int, name: str) -> Tensor:
    curvature = merging.curvatures[place].mean
    assert isinstance(curvature, DiagonalCurvature), "so the rule declares"
    return curvature.values[name]
