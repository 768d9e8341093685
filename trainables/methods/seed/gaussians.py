"""Gaussians with full covariance, one per class, on the features of an expert: fit, divergence and density.

Notation: n features of width S, mu mean, Sigma covariance, P = Sigma^-1 = L L^T with L lower triangular, c classes.

Source: Rypesc et al. 2024 (SEED), https://arxiv.org/abs/2401.10191, section 3; github.com/grypesc/SEED.
Follows the code: Sigma = (1/n) sum (x - mu)(x - mu)^T + e I with e = 1e-8, ten times larger until Sigma can be inverted
and its inverse factorised in the precision of the features; the next class starts at the e of the last one.
Departs from it: sums and factors are computed in float64, which alters no e: in float32 they lose half their digits
where Sigma is nearly singular.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

SMALLEST = 1e-8  # first e


@dataclass(frozen=True)
class Gaussians:
    """Gaussians of c classes."""

    means: Tensor  # (c, S)
    factors: Tensor  # L of each precision, lower triangular, (c, S, S)

    def __len__(self) -> int:
        return len(self.means)

    def log_density(self, features: Tensor) -> Tensor:
        """Return log N(x; mu_c, Sigma_c), nats: `(b, S)` to `(b, c)`."""
        whitened = (features - self.means[:, None]) @ self.factors  # [c, b, S]
        constant = self._half_log_determinants() - 0.5 * self.means.shape[1] * math.log(2 * math.pi)
        return constant - 0.5 * whitened.square().sum(-1).T

    def divergences(self) -> Tensor:
        """Return KL(N_i || N_j) in row i and column j, nats, `(c, c)`.

        It is (tr(P_j Sigma_i) + (mu_j - mu_i)^T P_j (mu_j - mu_i) - S + log |Sigma_j| - log |Sigma_i|) / 2.
        """
        roots = torch.linalg.inv(self.factors).mT  # Sigma_i = R_i R_i^T
        traces = (self.factors.mT[None] @ roots[:, None]).square().sum((-2, -1))
        apart = self.means - self.means[:, None]  # [i, j, S]: mu_j - mu_i
        distances = (apart[..., None, :] @ self.factors).square().sum((-2, -1))
        half_logs = self._half_log_determinants()
        return 0.5 * (traces + distances - self.means.shape[1]) + half_logs[:, None] - half_logs

    def overlap(self) -> Tensor:
        """Return the mean divergence over all ordered pairs, each class with itself included: a scalar."""
        return self.divergences().mean()

    def packed(self) -> tuple[Tensor, Tensor]:
        """Return the means and the lower triangle of each factor, row by row, `(c, S (S + 1) / 2)`."""
        rows, columns = torch.tril_indices(*self.factors.shape[1:])
        return self.means, self.factors[:, rows, columns]

    def _half_log_determinants(self) -> Tensor:
        """Return (1/2) log |P| of each class, `(c,)`."""
        return self.factors.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def unpacked(means: Tensor, triangles: Tensor) -> Gaussians:
    """Return the Gaussians of a `Gaussians.packed`, in memory of their own."""
    width = means.shape[1]
    rows, columns = torch.tril_indices(width, width)
    factors = means.new_zeros(len(means), width, width)
    factors[:, rows, columns] = triangles
    return Gaussians(means.clone(), factors)


def joined(parts: Sequence[Gaussians]) -> Gaussians:
    """Return the Gaussians of several sets of classes as one, in order."""
    return Gaussians(torch.cat([part.means for part in parts]), torch.cat([part.factors for part in parts]))


def fit_gaussians(features: Iterable[Tensor]) -> Gaussians:
    """Return a Gaussian per class, in the precision of its features `(n, S)`; an ArithmeticError if not finite."""
    floor, means, factors = SMALLEST, [], []
    for rows in features:
        mean = rows.double().mean(0)
        centred = rows.double() - mean
        factor, floor = precision_factor(centred.T @ centred / len(rows), floor, rows.dtype)
        means.append(mean.to(rows.dtype))
        factors.append(factor.to(rows.dtype))
    return Gaussians(torch.stack(means), torch.stack(factors))


def precision_factor(covariance: Tensor, floor: float, precision: torch.dtype) -> tuple[Tensor, float]:
    """Return L of (Sigma + e I)^-1 = L L^T, float64 `(S, S)`, and the e that was needed.

    e is `floor` times the smallest power of ten for which Sigma + e I has an inverse, and the inverse a factor, in
    `precision`. `covariance` is float64.

    Raises:
        ArithmeticError: If the covariance is not finite in `precision`.
    """
    if not covariance.to(precision).isfinite().all():
        raise ArithmeticError("features are not finite")
    identity = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    while _factor((covariance + floor * identity).to(precision)) is None:
        floor *= 10
    factor = _factor(covariance + floor * identity)
    assert factor is not None, "what has a factor in less precision has one in more"
    return factor, floor


def _factor(covariance: Tensor) -> Tensor | None:
    """Return L of the inverse of a covariance; None if its precision does not suffice."""
    factor, indefinite = torch.linalg.cholesky_ex(torch.linalg.inv_ex(covariance).inverse)
    return None if int(indefinite) or not factor.isfinite().all() else factor
