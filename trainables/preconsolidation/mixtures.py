"""Mixtures of Gaussians on frozen features, one per class, in place of past data.

Source: the paper, section Implementation details (Linear Probing): K = 5 components per class, N = 256 draws per class.
The covariances are diagonal, as in the authors' code; the paper leaves them open.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

MAX_ITERATIONS = 500
TOLERANCE = 1e-3  # gain in mean log-likelihood per example below which EM stops
VARIANCE_FLOOR = 1e-6


@dataclass(frozen=True)
class Mixture:
    """A mixture of K Gaussians with diagonal covariance in d dimensions."""

    weights: Tensor  # (K,); they sum to 1
    means: Tensor  # (K, d)
    variances: Tensor  # (K, d), the diagonals of the covariances

    def sample(self, n: int, generator: torch.Generator) -> Tensor:
        """Draw n features from the mixture, `(n, d)`."""
        components = torch.multinomial(self.weights, n, replacement=True, generator=generator)
        noise = torch.randn(n, self.means.shape[1], generator=generator, dtype=self.means.dtype)
        deviations = self.variances.sqrt().index_select(0, components)  # a third of the time of `[components]`
        return noise.mul_(deviations).add_(self.means.index_select(0, components))


def fit_mixture(features: Tensor, components: int, seed: int) -> Mixture:
    """Return a mixture of min(K, n) components, in the precision of features `(n, d)`, n >= 1; EM has float64."""
    if len(features) == 1:  # scikit-learn refuses one row
        return Mixture(features.new_ones(1), features, torch.full_like(features, VARIANCE_FLOOR))
    # Imported here: it takes a second, and a trial with a filled cache does not need it.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    k = min(components, len(features))
    model = GaussianMixture(
        k,
        covariance_type="diag",
        tol=TOLERANCE,
        reg_covar=VARIANCE_FLOOR,
        max_iter=MAX_ITERATIONS,
        random_state=seed % 2**32,  # numpy's range
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # duplicate rows: fewer distinct clusters, still a mixture
        model.fit(features.double().numpy())
    return Mixture(*(features.new_tensor(array) for array in (model.weights_, model.means_, model.covariances_)))
