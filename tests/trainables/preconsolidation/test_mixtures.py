"""Mixtures against scikit-learn, and what they sample."""

from __future__ import annotations

import torch
from sklearn.mixture import GaussianMixture

from trainables.preconsolidation.mixtures import Mixture, fit_mixture


def data(generator: torch.Generator, n: int = 400) -> torch.Tensor:
    centres = 4 * torch.randn(3, 6, generator=generator)
    return centres[torch.randint(3, (n,), generator=generator)] + torch.randn(n, 6, generator=generator)


def test_log_likelihood_equals_scikit_learn(generator: torch.Generator) -> None:
    x = data(generator).double()
    model = GaussianMixture(4, covariance_type="diag", random_state=0).fit(x.numpy())
    ours = Mixture(*(torch.tensor(a) for a in (model.weights_, model.means_, model.covariances_)))
    torch.testing.assert_close(ours.log_likelihood(x), torch.tensor(model.score_samples(x.numpy())))


def test_fit_is_as_likely_as_scikit_learn_and_repeats(generator: torch.Generator) -> None:
    x = data(generator)
    reference = GaussianMixture(5, covariance_type="diag", reg_covar=1e-6, max_iter=500, random_state=3).fit(x.numpy())
    first, second = fit_mixture(x, 5, seed=3), fit_mixture(x, 5, seed=3)
    assert abs(float(first.log_likelihood(x).mean()) - reference.score(x.numpy())) < 1e-3
    assert all(torch.equal(a, b) for a, b in zip(vars(first).values(), vars(second).values(), strict=True))


def test_fewer_examples_than_components(generator: torch.Generator) -> None:
    x = torch.randn(3, 4, generator=generator)
    mixture = fit_mixture(x, 5, seed=0)
    assert len(mixture.weights) == 3
    assert mixture.sample(10, generator).isfinite().all()
    assert len(fit_mixture(x[:1], 5, seed=0).weights) == 1
    assert mixture.log_likelihood(x).isfinite().all()


def test_samples_follow_the_mixture(generator: torch.Generator) -> None:
    mixture = Mixture(torch.tensor([0.25, 0.75]), torch.tensor([[0.0], [10.0]]), torch.tensor([[1.0], [4.0]]))
    drawn = mixture.sample(20_000, generator)[:, 0]
    high = drawn > 5
    assert abs(float(high.float().mean()) - 0.75) < 0.02
    assert abs(float(drawn[high].mean()) - 10) < 0.1
    assert abs(float(drawn[high].std()) - 2) < 0.1
