"""Regularisers of ITA and IEL: closed-form gradients with respect to tau_t, and their part in a step.

With the running mean curvature F and the sum of past task vectors, both methods have

    d Omega / d tau_t = F (current_strength * tau_t - past_strength * sum_{s<t} tau_s)

and differ in F and the two strengths at task t. The cost is constant in the number of tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from trainables.curvature import Curvature
from trainables.heads import Head
from trainables.task_vectors import TaskVectors
from trainables.task_vectors.low_rank import LowRank, Matrices, dense

CLIP = 100.0  # per weight, on the regulariser's gradient; source: the authors' code


@dataclass(frozen=True)
class Coefficients:
    """Strengths of a task's regulariser."""

    current_strength: float  # of F tau_t
    past_strength: float = 0.0  # of F times the sum of past task vectors, which is subtracted


class LayerPenalty:
    """The regulariser of the tuned weights during one task.

    `curvature` is F of the tuned weights by name, `past` the sum of past task vectors `(out, in)` by the same names,
    which is not kept. `stacks` groups the names like the task vectors.
    """

    def __init__(
        self, curvature: Curvature, coefficients: Coefficients, past: dict[str, Tensor], stacks: list[tuple[str, ...]]
    ) -> None:
        self.pull: list[Tensor] = []
        if coefficients.past_strength:
            sums = [torch.stack([past[name] for name in names]) for names in stacks]
            pull = curvature.scaled(coefficients.past_strength).form(stacks).product(sums)
            self.pull = [dense(each) for each in pull]
        self.form = curvature.scaled(coefficients.current_strength).form(stacks)

    def largest(self) -> float:
        """Return the largest eigenvalue of current_strength * F; decoupled steps are unstable above 2 / c_e."""
        return self.form.largest_eigenvalue()

    @torch.no_grad()
    def value(self, vectors: TaskVectors) -> float:
        """Return Omega(tau_t) - Omega(0) = tau_t^T F (current_strength tau_t / 2 - past_strength sum_{s<t} tau_s)."""
        taus = [vectors.displacement(k) for k in range(len(vectors.stacks))]
        value = self.form.value(taus) / 2
        if self.pull:
            value -= torch.stack([(pull * dense(tau)).sum() for pull, tau in zip(self.pull, taus, strict=True)]).sum()
        return float(value)

    @torch.no_grad()
    def gradients(self, vectors: TaskVectors) -> list[tuple[nn.Parameter, Tensor]]:
        """Return the gradient of every trainable parameter of tau_t, in closed form."""
        products = self.form.product([vectors.displacement(k) for k in range(len(vectors.stacks))])
        if any(isinstance(product, LowRank) for product in products):  # without a dense difference
            pairs = _pulled_back(vectors, products)
            if self.pull:
                torch._foreach_sub_(_unzipped(pairs)[1], _unzipped(_pulled_back(vectors, self.pull))[1])
            return pairs
        gradients = [dense(product) for product in products]
        if self.pull:
            torch._foreach_sub_(gradients, self.pull)
        return _pulled_back(vectors, gradients)


def _pulled_back(vectors: TaskVectors, gradients: Sequence[Matrices]) -> list[tuple[nn.Parameter, Tensor]]:
    """Return the gradients of all parameters from those of the stacks."""
    return [pair for k, gradient in enumerate(gradients) for pair in vectors.vjp(k, gradient)]


class HeadPenalty:
    """The regulariser of the current head: (alpha_cls F + alpha_cls_prior I) (h_t - h0_t), weight and bias.

    `anchor` is h0_t, the rows of the pre-training head at task t, and `fisher` the mean F of these rows' `weight` and
    `bias`.
    """

    def __init__(self, anchor: Head, fisher: Curvature, alpha_cls: float, alpha_cls_prior: float) -> None:
        self.anchor = anchor
        self.form = fisher.scaled(alpha_cls).shifted(alpha_cls_prior).form()

    @torch.no_grad()
    def gradients(self, head: list[nn.Parameter]) -> list[tuple[nn.Parameter, Tensor]]:
        """Return the gradients of the head's weight and bias."""
        moved = torch._foreach_sub(list(head), list(self.anchor))
        return list(zip(head, map(dense, self.form.product(moved)), strict=True))


@torch.no_grad()
def decoupled_step(pairs: list[tuple[nn.Parameter, Tensor]], factor: float | Tensor) -> None:
    """Apply p <- p - c_e clip(g) before the optimiser's own step, without the learning rate; g is scaled in place.

    Source: the paper, section Implementation details (Optimization); the step size c_e is the authors' code's.
    """
    parameters, gradients = _unzipped(pairs)
    _clip(gradients)
    if isinstance(factor, Tensor):
        torch._foreach_mul_(gradients, factor)
        torch._foreach_sub_(parameters, gradients)
    else:
        torch._foreach_sub_(parameters, gradients, alpha=factor)


@torch.no_grad()
def coupled_step(pairs: list[tuple[nn.Parameter, Tensor]]) -> None:
    """Add the regulariser's gradients to the loss's and clip the sums; the optimiser takes the step."""
    parameters, gradients = _unzipped(pairs)
    of_loss = [parameter.grad for parameter in parameters if parameter.grad is not None]
    assert len(of_loss) == len(parameters)
    sums = list(torch._foreach_add(of_loss, gradients))
    _clip(sums)
    for parameter, gradient in zip(parameters, sums, strict=True):
        parameter.grad = gradient


def _unzipped(pairs: list[tuple[nn.Parameter, Tensor]]) -> tuple[list[Tensor], list[Tensor]]:
    return [parameter for parameter, _ in pairs], [gradient for _, gradient in pairs]


def _clip(gradients: list[Tensor]) -> None:
    """Scale each matrix or vector with a norm above `CLIP` down to it, in place, without waiting for a GPU."""
    parts = [part for gradient in gradients for part in (gradient.unbind() if gradient.ndim == 3 else (gradient,))]
    norms = torch.stack(torch._foreach_norm(parts))
    if norms.device.type == "cpu" and float(norms.max()) <= CLIP - 1e-6:  # nothing to clip: most steps
        return
    torch._foreach_mul_(parts, list((CLIP / (norms + 1e-6)).clamp(max=1.0).unbind()))
