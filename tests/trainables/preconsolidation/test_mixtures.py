"""Mixtures against scikit-learn, and their samples."""

from __future__ import annotations

import pytest
import torch
from sklearn.mixture import GaussianMixture
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from trainables.preconsolidation import mixtures
from trainables.preconsolidation.mixtures import Mixture, fit_mixture


def data(generator: torch.Generator, n: int = 400) -> torch.Tensor:
    centres = 4 * torch.randn(3, 6, generator=generator)
    return centres[torch.randint(3, (n,), generator=generator)] + torch.randn(n, 6, generator=generator)


def log_likelihood(mixture: Mixture, features: torch.Tensor) -> torch.Tensor:
    """Return log p(x) of each row: `(n, d)` to `(n,)`."""
    each = Independent(Normal(mixture.means, mixture.variances.sqrt()), 1)
    return MixtureSameFamily(Categorical(mixture.weights), each).log_prob(features)


def test_fit_is_as_likely_as_scikit_learn_and_repeats(generator: torch.Generator) -> None:
    x = torch.randn(400, 6, generator=generator)  # clusters that overlap take EM many steps
    reference = GaussianMixture(5, covariance_type="diag", tol=1e-3, reg_covar=1e-6, max_iter=500, random_state=3)
    reference.fit(x.double().numpy())
    assert 5 < reference.n_iter_ < 500
    first, second = fit_mixture(x, 5, seed=3), fit_mixture(x, 5, seed=3)
    assert abs(float(log_likelihood(first, x).mean()) - reference.score(x.numpy())) < 1e-3
    for part in ("weights", "means", "variances"):
        wanted = getattr(reference, {"variances": "covariances_"}.get(part, f"{part}_"))
        torch.testing.assert_close(getattr(first, part), torch.tensor(wanted).float(), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(a, b) for a, b in zip(vars(first).values(), vars(second).values(), strict=True))


def test_em_takes_as_many_steps_as_it_may(generator: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(400, 6, generator=generator)
    whole = fit_mixture(x, 5, seed=3)
    monkeypatch.setattr(mixtures, "MAX_ITERATIONS", 2)
    assert not torch.allclose(fit_mixture(x, 5, seed=3).means, whole.means, atol=1e-3)


def test_fewer_examples_than_components(generator: torch.Generator) -> None:
    x = torch.randn(3, 4, generator=generator)
    mixture = fit_mixture(x, 5, seed=0)
    assert len(mixture.weights) == 3
    assert mixture.sample(10, generator).isfinite().all()
    alone = fit_mixture(x[:1], 5, seed=0)
    assert torch.equal(alone.weights, torch.ones(1)) and torch.equal(alone.means, x[:1])
    assert torch.equal(alone.variances, torch.full((1, 4), 1e-6))
    assert fit_mixture(x.double(), 5, seed=0).means.dtype == torch.float64  # as precise as what it is fitted to
    assert log_likelihood(mixture, x).isfinite().all()


def test_samples_follow_the_mixture(generator: torch.Generator) -> None:
    mixture = Mixture(torch.tensor([0.25, 0.75]), torch.tensor([[0.0], [10.0]]), torch.tensor([[1.0], [4.0]]))
    drawn = mixture.sample(20_000, generator)[:, 0]
    high = drawn > 5
    assert abs(float(high.float().mean()) - 0.75) < 0.02
    assert abs(float(drawn[high].mean()) - 10) < 0.1
    assert abs(float(drawn[high].std()) - 2) < 0.1
