"""Gaussians: the authors' fits, divergences and densities, torch's, and divergences by sampling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from trainables.methods.seed.gaussians import Gaussians, fit_gaussians, joined, precision_factor, unpacked

ORACLE: Any = np.load(Path(__file__).parent / "oracles" / "seed_gaussians.npz", allow_pickle=False)


def features(expert: int, classes: range) -> list[Tensor]:
    return [torch.from_numpy(ORACLE[f"features_e{expert}_c{c}"]) for c in classes]


def covariances(fitted: Gaussians) -> Tensor:
    factors = fitted.factors.double()
    return torch.linalg.inv(factors @ factors.mT).to(fitted.factors.dtype)


def random_gaussians(classes: int, width: int, seed: int = 0) -> Gaussians:
    generator = torch.Generator().manual_seed(seed)
    scales = torch.rand(classes, 1, width, generator=generator, dtype=torch.float64) + 0.5
    means = torch.randn(classes, width, generator=generator, dtype=torch.float64)
    rows = torch.randn(classes, 9 * width, width, generator=generator, dtype=torch.float64) * scales + means[:, None]
    return fit_gaussians(list(rows))


def as_torch(fitted: Gaussians) -> list[MultivariateNormal]:
    return [MultivariateNormal(m, precision_matrix=f @ f.T) for m, f in zip(fitted.means, fitted.factors, strict=True)]


@pytest.mark.parametrize(("expert", "classes"), [(0, range(6)), (1, range(2, 6))])
def test_fits_are_those_of_the_authors_code(expert: int, classes: range) -> None:
    fitted = fit_gaussians(features(expert, classes))
    for k, c in enumerate(classes):
        assert ORACLE[f"pi_e{expert}_c{c}"].item() == 1
        mean, covariance = (torch.from_numpy(ORACLE[f"{name}_e{expert}_c{c}"]) for name in ("mu", "var"))
        torch.testing.assert_close(fitted.means[k], mean, rtol=0, atol=1e-6)
        torch.testing.assert_close(covariances(fitted)[k], covariance, rtol=2e-5, atol=2e-5)


def test_divergences_overlap_and_choice_are_those_of_the_authors_code() -> None:
    fits = [fit_gaussians(features(expert, range(4, 6))) for expert in (0, 1)]
    found = torch.cat([each.divergences().T.flatten() for each in fits])  # theirs goes through columns first
    torch.testing.assert_close(found, torch.from_numpy(ORACLE["kl_in_call_order"]), rtol=3e-4, atol=1e-3)
    overlaps = torch.stack([each.overlap() for each in fits])
    torch.testing.assert_close(overlaps, torch.from_numpy(ORACLE["overlap"]), rtol=3e-4, atol=0)
    assert int(overlaps.argmax()) == int(ORACLE["chosen"])


@pytest.mark.parametrize(("expert", "classes"), [(0, range(6)), (1, range(2, 6))])
def test_densities_are_those_of_the_authors_code(expert: int, classes: range) -> None:
    x, wanted = (torch.from_numpy(ORACLE[name])[:, expert] for name in ("x", "log_probs"))
    found = fit_gaussians(features(expert, classes)).log_density(x)
    torch.testing.assert_close(found, wanted[:, classes.start :], rtol=1e-4, atol=1e-4)
    assert (wanted[:, : classes.start] == -1e8).all()


def test_a_singular_covariance_gets_the_diagonal_that_the_authors_code_gives_it() -> None:
    x = torch.from_numpy(ORACLE["singular_x"]).double()
    covariance = (x - x.mean(0)).T @ (x - x.mean(0)) / len(x)
    factor, floor = precision_factor(covariance, 1e-8, torch.float32)
    assert floor == pytest.approx(float(ORACLE["singular_eps"]))
    covariance += floor * torch.eye(8)
    torch.testing.assert_close(covariance, torch.from_numpy(ORACLE["singular_var"]).double(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(covariance @ factor @ factor.T, torch.eye(8).double())
    assert precision_factor(covariance, 1e-8, torch.float64)[1] == 1e-8


def test_the_diagonal_that_one_class_needed_is_where_the_next_one_starts() -> None:
    easy, singular = (
        torch.randn(50, 8, generator=torch.Generator().manual_seed(0)),
        torch.from_numpy(ORACLE["singular_x"]),
    )
    first, second = (fit_gaussians(each) for each in ([easy, singular, easy], [easy]))
    torch.testing.assert_close(covariances(first)[0], covariances(second)[0])
    apart = (covariances(first)[2] - covariances(first)[0]).diagonal()
    torch.testing.assert_close(apart, torch.full((8,), 1e-4), rtol=0.05, atol=1e-6)


def test_one_example_of_a_class_is_enough() -> None:
    fitted = fit_gaussians([torch.ones(1, 4, dtype=torch.float64)])
    torch.testing.assert_close(covariances(fitted), 1e-8 * torch.eye(4, dtype=torch.float64)[None])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e200])
def test_features_that_are_not_finite_have_no_gaussian(bad: float) -> None:
    with pytest.raises(ArithmeticError, match="not finite"):
        fit_gaussians([torch.tensor([[1.0, bad], [0.0, 1.0]]).double()])


def test_densities_and_divergences_are_torchs() -> None:
    fitted = random_gaussians(4, 5)
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wanted = torch.stack([each.log_prob(x) for each in as_torch(fitted)], 1)
    torch.testing.assert_close(fitted.log_density(x), wanted)
    pairs = [[kl_divergence(p, q) for q in as_torch(fitted)] for p in as_torch(fitted)]
    divergences = torch.tensor(pairs, dtype=torch.float64)
    torch.testing.assert_close(fitted.divergences(), divergences)
    torch.testing.assert_close(fitted.overlap(), divergences.sum() / 16)


def test_divergences_are_expectations_of_log_ratios() -> None:
    """Within five standard errors of 200 000 draws: one test in a million would fail by chance."""
    fitted, generator = random_gaussians(2, 3, seed=2), torch.Generator().manual_seed(3)
    roots = torch.linalg.inv(fitted.factors).mT
    for i, j in ((0, 1), (1, 0)):
        draws = torch.randn(200_000, 3, generator=generator, dtype=torch.float64) @ roots[i].T + fitted.means[i]
        densities = fitted.log_density(draws)
        ratios = densities[:, i] - densities[:, j]
        error = ratios.std() / len(ratios) ** 0.5
        assert abs(ratios.mean() - fitted.divergences()[i, j]) < 5 * error


def test_packing_keeps_every_number() -> None:
    fitted = random_gaussians(3, 4)
    means, triangles = fitted.packed()
    assert triangles.shape == (3, 10)
    back = unpacked(means, triangles)
    assert torch.equal(back.means, fitted.means) and torch.equal(back.factors, fitted.factors)


def test_joined_are_the_classes_in_order() -> None:
    a, b = random_gaussians(2, 3, seed=4), random_gaussians(3, 3, seed=5)
    x = torch.zeros(1, 3, dtype=torch.float64)
    assert len(joined([a, b])) == 5
    torch.testing.assert_close(joined([a, b]).log_density(x), torch.cat([a.log_density(x), b.log_density(x)], 1))


@pytest.mark.parametrize("scale", [1e25, float("nan")])
def test_features_whose_covariance_is_infinite_in_their_precision_have_diverged(scale: float) -> None:
    rows = torch.randn(10, 4, generator=torch.Generator().manual_seed(6))
    assert len(fit_gaussians([rows * 1e15])) == 1
    with pytest.raises(ArithmeticError, match="not finite"):
        fit_gaussians([rows * scale])  # in float64 the covariance of the first is finite
