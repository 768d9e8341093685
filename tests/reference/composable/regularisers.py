"""The regularisers as the paper's scalars; "official" is the authors' code."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.reference.composable.preconsolidation import PreTrained, Rows, draw, head_fisher
from tests.reference.composable.task_vectors import Setting, Weights
from tests.reference.stages import drawn
from trainables.data import Task

EPSILON = 1e-5  # the authors' code: keeps a Fisher from vanishing


class LayerRegulariser:
    """The term of the loss that depends on tau_t."""

    def __init__(self, s: Setting, t: int, pre_trained: PreTrained, past: list[Weights]) -> None:
        self.s, self.t, self.past = s, t, past
        self.fisher = {name: self.mean_fisher(name, pre_trained) for name in pre_trained.fisher}

    def mean_fisher(self, name: str, now: PreTrained) -> Tensor:
        """Eq. (fisher_definition): the mean over the images of tasks 1 to t.

        The authors' code adds epsilon; in ITA it takes tasks before t alone (the footnote), and epsilon once in their
        sum, or by itself at t = 1.
        """
        if not self.s.official:
            return now.fisher[name] / now.images
        if self.s.ensemble:
            return now.fisher[name] / now.images + EPSILON
        if now.before is None:
            return torch.full_like(now.fisher[name], EPSILON)
        return (now.before.fisher[name] + EPSILON) / now.before.images

    def ewc(self, tau: Weights) -> Tensor:
        """Eq. (ewcdef): sum_i F_i tau_i^2."""
        return torch.stack([(self.fisher[name] * tau[name] ** 2).sum() for name in tau]).sum()

    def inner(self, one: Weights, other: Weights) -> Tensor:
        """tau_t^T F tau_t'."""
        return torch.stack([(one[name] * self.fisher[name] * other[name]).sum() for name in one]).sum()

    def omega(self, taus: list[Weights]) -> Tensor:
        """Eq. (fisher_ensemble) with w_t = 1/T."""
        w = 1 / len(taus)
        total = torch.zeros(())
        for k, tau in enumerate(taus):
            total = total + w * (1 - w) / 2 * self.ewc(tau)
            for other in taus[:k]:
                total = total - w * w * self.inner(tau, other)
        return total

    def __call__(self, tau: Weights) -> Tensor:
        strength, t = self.s.strength, self.t
        if self.s.regularise != "all":
            return torch.zeros(())
        if not self.s.ensemble:
            return strength / 2 * self.ewc(tau)  # eq. (augmentedprobv2)
        if not self.s.official:
            return strength * self.omega([*self.past, tau])  # eq. (augmentedjointv4)
        # The authors' code: eq. (augmentedjointv5) without the outer 1/t, and with 1/2 in place of 1/t at t = 1.
        share = 1 / 2 if t == 1 else 1 / t
        pull = torch.stack([self.inner(tau, past) for past in self.past]).sum() if self.past else torch.zeros(())
        return strength * ((1 - share) * self.ewc(tau) / 2 - share * pull)

    def curvature(self, theta_0: Weights) -> float:
        """The largest second derivative by an entry of tau_t: for a quadratic, a difference of two gradients."""
        gradients = []
        for value in (0.0, 1.0):
            tau = {name: torch.full_like(weight, value).requires_grad_() for name, weight in theta_0.items()}
            gradients.append(torch.autograd.grad(self(tau), list(tau.values())))
        return max(float((one - zero).max()) for zero, one in zip(*gradients, strict=True))


class HeadRegulariser:
    """(alpha_CLS F + alpha_CLS-prior) d^2 / 2 with d = h_t - h0_t.

    F is that of the rows of h0_t, over drawn features of all classes seen. The authors' code has no 1/2, adds epsilon
    to F, takes F over past classes in ITA, and drops the prior where there is no Fisher term.
    """

    def __init__(self, s: Setting, task: Task, pre_trained: PreTrained, anchor: Rows, seed: int) -> None:
        self.s, self.anchor = s, anchor
        rows = slice(task.classes[0], task.classes[-1] + 1)
        seen = task.classes[0] if s.official and not s.ensemble else task.classes[-1] + 1
        z = torch.empty(0, anchor[0].shape[1])
        if seen:
            z, _ = draw(pre_trained.mixtures[:seen], drawn(seed, "head-fisher", task.index))
        self.fisher = head_fisher(z, pre_trained.head, rows)

    def __call__(self, parameters: Weights) -> Tensor:
        total = torch.zeros(())
        if self.s.regularise == "none":
            return total
        for name, anchor, fisher in zip(("head.weight", "head.bias"), self.anchor, self.fisher, strict=True):
            squares = (parameters[name] - anchor) ** 2
            if not self.s.official:
                total = total + ((self.s.cls * fisher + self.s.prior) * squares).sum() / 2
            elif self.s.cls:
                total = total + ((self.s.cls * (fisher + EPSILON) + self.s.prior) * squares).sum()
        return total
