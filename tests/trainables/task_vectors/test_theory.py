"""The paper's equations, on random quadratics in float64: Theorem 1 and what is built on it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from trainables.methods.composable.iel import IELConfig, IELRule
from trainables.methods.composable.ita import ITAConfig, ITARule
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


def omega_fisher(taus: Tensor, weights: Tensor, fisher: Tensor) -> Tensor:
    """Eq. (fisher_ensemble)."""
    ewc = (fisher * taus**2).sum(1)
    total = 0.5 * (weights * (1 - weights) * ewc).sum()
    for t in range(len(taus)):
        for s in range(t):
            total = total - weights[t] * weights[s] * (taus[t] * fisher * taus[s]).sum()
    return total


@pytest.mark.parametrize("seed", range(3))
def test_diagonal_form_equals_the_pairwise_form(seed: int) -> None:
    _, _, taus, weights, fisher = problem(5, seed)
    difference = omega_fisher(taus, weights, fisher) - omega_pairwise(taus, weights, torch.diag(fisher))
    assert abs(float(difference)) < 1e-10


class OneMatrix:
    """A task vector of one dense tau: as much of `TaskVectors` as a regulariser asks for."""

    stacks = [("w",)]

    def __init__(self, tau: Tensor) -> None:
        self.tau = tau

    def dense_stack(self, k: int) -> Tensor:
        return self.tau[None]


def penalty(t: int, fisher: Tensor, past: Tensor, tau: Tensor) -> float:
    """What the product adds to the loss of task t beyond its value at tau_t = 0, with beta = 1."""
    rule = IELRule(IELConfig(beta=1.0, beta_cls=0, beta_cls_prior=0, lr=1))
    mean, coefficients = rule.layer_penalty(consolidation(t, fisher / 2))  # of which the mean is `fisher`
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
    """The product's Omega falls to what the past alone cannot lose: it is least where tau_t is the others' mean."""
    _, _, taus, _, fisher = problem(4, 0)
    past = taus[:1].repeat(3, 1)
    alone = omega_pairwise(torch.cat([past, torch.zeros(1, M).double()]), torch.full((4,), 0.25), torch.diag(fisher))
    assert penalty(4, fisher, past, taus[0]) == pytest.approx(-float(alone), rel=1e-10)
    assert all(penalty(4, fisher, past, taus[0] + other) > -float(alone) for other in taus[1:])


def consolidation(t: int, fisher: Tensor) -> Consolidation:
    previous = Consolidation(t - 1, _HEAD, (), {"w": 30 * fisher}, 10, None) if t > 1 else None
    return Consolidation(t, _HEAD, (), {"w": 80 * fisher}, 40, previous)


_HEAD = (torch.empty(0), torch.empty(0))


@pytest.mark.parametrize("t", [1, 2, 5])
def test_iel_gradient_is_that_of_the_full_omega(t: int) -> None:
    _, _, taus, _, fisher = problem(t, t)
    rule = IELRule(IELConfig(beta=3.0, beta_cls=0, beta_cls_prior=0, lr=1))
    mean, coefficients = rule.layer_penalty(consolidation(t, fisher))
    tau = taus[-1].clone().requires_grad_()
    weights = torch.full((t,), 1 / t, dtype=torch.float64)
    omega = omega_fisher(torch.cat([taus[:-1], tau[None]]), weights, 2 * fisher)
    (expected,) = torch.autograd.grad(3.0 * omega, tau)
    got = mean["w"] * (coefficients.current_strength * taus[-1] - coefficients.past_strength * taus[:-1].sum(0))
    torch.testing.assert_close(mean["w"], 2 * fisher)  # 80 / 40: the mean over the examples of all tasks so far
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("t", [1, 2, 5])
def test_ita_gradient_is_alpha_fisher_tau(t: int) -> None:
    _, _, taus, _, fisher = problem(t, t)
    rule = ITARule(ITAConfig(alpha=0.7, alpha_cls=0, alpha_cls_prior=0, lr=1))
    mean, coefficients = rule.layer_penalty(consolidation(t, fisher))
    tau = taus[-1].clone().requires_grad_()
    (expected,) = torch.autograd.grad(0.7 / 2 * (2 * fisher * tau**2).sum(), tau)  # 80 / 40: the mean over examples
    assert coefficients.past_strength == 0
    torch.testing.assert_close(mean["w"] * coefficients.current_strength * taus[-1], expected, rtol=1e-10, atol=1e-12)


class TestOfficialFormulation:
    """Each departure of the authors' code, by its formula."""

    def test_ita_takes_the_fisher_of_past_tasks_with_a_floor(self) -> None:
        fisher = torch.tensor([1.0, 2.0], dtype=torch.float64)
        rule = ITARule(ITAConfig(alpha=2.0, alpha_cls=0.1, alpha_cls_prior=0.01, lr=1, formulation="official"))
        first, _ = rule.layer_penalty(consolidation(1, fisher))
        later, coefficients = rule.layer_penalty(consolidation(3, fisher))
        torch.testing.assert_close(first["w"], torch.full((2,), 1e-5, dtype=torch.float64))
        torch.testing.assert_close(later["w"], (30 * fisher + 1e-5) / 10)
        assert (coefficients.current_strength, coefficients.past_strength) == (2.0, 0.0)
        assert (rule.alpha_cls, rule.alpha_cls_prior) == (0.2, 0.02)

    @pytest.mark.parametrize(("t", "share"), [(1, 1 / 2), (2, 1 / 2), (4, 1 / 4)])
    def test_iel_has_no_outer_factor_and_regularises_task_one(self, t: int, share: float) -> None:
        fisher = torch.tensor([1.0, 2.0], dtype=torch.float64)
        rule = IELRule(IELConfig(beta=3.0, beta_cls=0.1, beta_cls_prior=0.01, lr=1, formulation="official"))
        mean, coefficients = rule.layer_penalty(consolidation(t, fisher))
        torch.testing.assert_close(mean["w"], 2 * fisher + 1e-5)
        assert coefficients.current_strength == pytest.approx(3 * (1 - share))
        assert coefficients.past_strength == pytest.approx(3 * share)

    @pytest.mark.parametrize("formulation", ["paper", "official"])
    def test_prior_without_fisher_term(self, formulation: str) -> None:
        config = ITAConfig(alpha=1, alpha_cls=0, alpha_cls_prior=0.01, lr=1, formulation=formulation)  # type: ignore[arg-type]
        assert ITARule(config).alpha_cls_prior == (0.01 if formulation == "paper" else 0.0)
