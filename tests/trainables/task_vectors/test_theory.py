"""Theorem 1 on random quadratics in float64, with the regulariser that IEL trains with.

`tests/reference` has the regularisers and their gradients.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from trainables.curvature import DiagonalCurvature
from trainables.methods.composable.iel import IELConfig, IELRule
from trainables.methods.composable.penalty import LayerPenalty
from trainables.preconsolidation import Consolidation

M = 12  # number of weights


def problem(tasks: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Random PSD Hessian, gradient, offset is zero; task vectors `(T, M)` and weights that sum to 1."""
    generator = torch.Generator().manual_seed(seed)
    root = torch.randn(M, M, generator=generator, dtype=torch.float64)
    taus = torch.randn(tasks, M, generator=generator, dtype=torch.float64)
    weights = torch.rand(tasks, generator=generator, dtype=torch.float64)
    gradient = torch.randn(M, generator=generator, dtype=torch.float64)
    return root @ root.T, gradient, taus, weights / weights.sum(), torch.rand(M, generator=generator).double()


def quadratic(tau: Tensor, gradient: Tensor, hessian: Tensor) -> Tensor:
    return tau @ gradient + 0.5 * tau @ hessian @ tau


def omega_pairwise(taus: Tensor, weights: Tensor, hessian: Tensor) -> Tensor:
    """Eq. (theorem_one_b)."""
    total = torch.zeros((), dtype=torch.float64)
    for t in range(len(taus)):
        for s in range(t):
            difference = taus[t] - taus[s]
            total = total + 0.5 * weights[t] * weights[s] * difference @ hessian @ difference
    return total


class OneMatrix:
    """A task vector of one dense tau: as much of `TaskVectors` as a regulariser asks for."""

    stacks = [("w",)]

    def __init__(self, tau: Tensor) -> None:
        self.tau = tau

    def displacement(self, k: int) -> Tensor:
        return self.tau[None]


def consolidation(t: int, fisher: Tensor) -> Consolidation:
    """A task whose mean Fisher is 2 * `fisher`."""
    head = (torch.empty(0), torch.empty(0))
    past, present = (DiagonalCurvature({"w": factor * fisher}) for factor in (30, 80))
    previous = Consolidation(t - 1, head, (), past, 10, None) if t > 1 else None
    return Consolidation(t, head, (), present, 40, previous)


def penalty(t: int, fisher: Tensor, past: Tensor, tau: Tensor) -> float:
    """The penalty of IEL on task t, minus its value at tau_t = 0, with beta = 1."""
    rule = IELRule(IELConfig(beta=1.0, beta_cls=0, beta_cls_prior=0, lr=1))
    mean, coefficients = rule.layer_penalty(consolidation(t, fisher / 2))
    return LayerPenalty(mean, coefficients, {"w": past.sum(0)}, OneMatrix.stacks).value(OneMatrix(tau))


@pytest.mark.parametrize("t", [2, 3, 7])
def test_theorem_one_holds_of_the_regulariser_that_is_trained_with(t: int) -> None:
    """l(theta_P) + Omega = (1/t) sum_s l(theta_s), its left side from the product as tau_t goes from zero."""
    _, gradient, taus, _, fisher = problem(t, t)
    hessian, past, tau = torch.diag(fisher), taus[:-1], taus[-1]

    def loss(of: Tensor) -> float:
        return float(quadratic(of, gradient, hessian))

    left = loss(taus.mean(0)) - loss(past.sum(0) / t) + penalty(t, fisher, past, tau)
    assert left == pytest.approx((loss(tau) - loss(torch.zeros(M).double())) / t, rel=1e-10)


def test_equal_task_vectors_have_no_penalty() -> None:
    """The penalty is least where tau_t is the mean of the past; there it is minus the past's own Omega."""
    _, _, taus, _, fisher = problem(4, 0)
    past = taus[:1].repeat(3, 1)
    alone = omega_pairwise(torch.cat([past, torch.zeros(1, M).double()]), torch.full((4,), 0.25), torch.diag(fisher))
    assert penalty(4, fisher, past, taus[0]) == pytest.approx(-float(alone), rel=1e-10)
    assert all(penalty(4, fisher, past, taus[0] + other) > -float(alone) for other in taus[1:])
