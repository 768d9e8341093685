"""The true diagonal Fisher against a loop over every example and class, in float64.

`tests/reference` has the Fisher of the head.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones import tuned_layers
from trainables.backbones.class_token import read_class_token_only
from trainables.curvature import DiagonalCurvature, passes as passes_module
from trainables.curvature.softmax_hessian import hessian_square_root
from trainables.heads import Head

Fisher = dict[str, Tensor]


@pytest.fixture
def head(generator: torch.Generator) -> Head:
    return (
        torch.randn(5, 8, generator=generator, dtype=torch.float64),
        torch.randn(5, generator=generator, dtype=torch.float64),
    )


def exact(model: nn.Module, head: Head, batches: Iterable[Tensor], passes: int | None = None) -> tuple[Fisher, int]:
    generator = torch.Generator().manual_seed(1)
    found, examples = DiagonalCurvature.estimate(
        model, tuned_layers(model), head, batches, passes=passes, generator=generator
    )
    return found.values, examples


def brute_force(model: nn.Module, parameters: list[Tensor], images: Tensor, head: Head) -> list[Tensor]:
    """Sum over examples and classes of p * (d log p / d theta)^2, one backward pass for each pair."""
    sums = [torch.zeros_like(p) for p in parameters]
    for image in images:
        for k in range(len(head[1])):
            log_p = F.linear(model(image[None]), *head).log_softmax(1)[0]
            gradients = torch.autograd.grad(log_p[k], parameters)
            for total, gradient in zip(sums, gradients, strict=True):
                total += log_p[k].exp().detach() * gradient**2
    return sums


@pytest.mark.parametrize("short", [False, True], ids=["whole", "class token"])
@pytest.mark.parametrize("split", [[12], [1] * 12, [5, 7], [3, 4, 5]])
def test_equals_brute_force_whatever_the_batches(split: list[int], short: bool, images: Tensor, head: Head) -> None:
    model = make_tiny_vit()
    if short:
        read_class_token_only(model)
    layers = tuned_layers(model)
    fisher, examples = exact(model, head, images.split(split))
    expected = brute_force(model, [layer.weight for layer in layers.values()], images, head)
    assert examples == 12
    for got, want in zip(fisher.values(), expected, strict=True):
        torch.testing.assert_close(got.detach(), want.detach(), rtol=1e-10, atol=1e-12)


def test_refuses_train_mode_and_no_examples(images: Tensor, head: Head) -> None:
    model = make_tiny_vit()
    with pytest.raises(ValueError, match="at least one example"):
        exact(model, head, [])
    model.train()
    with pytest.raises(ValueError, match="eval mode"):
        exact(model, head, [images])


@pytest.mark.parametrize("sharpness", [0.0, 1.0, 8.0, 400.0])
def test_enough_vectors_factor_the_curvature_and_fewer_do_so_on_average(
    sharpness: float, generator: torch.Generator
) -> None:
    p = (sharpness * torch.randn(3, 6, generator=generator, dtype=torch.float64)).softmax(1)
    curvature = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    every = hessian_square_root(p, None, generator)
    assert every.shape == (5, 3, 6)
    torch.testing.assert_close(torch.einsum("kbi,kbj->bij", every, every), curvature, rtol=1e-10, atol=1e-12)
    for passes in (1, 3):
        draws = hessian_square_root(p.repeat(4000, 1), passes, generator).unflatten(1, (4000, 3))
        assert draws.shape == (passes, 4000, 3, 6)
        mean = torch.einsum("knbi,knbj->bij", draws, draws) / 4000
        torch.testing.assert_close(mean, curvature, rtol=0, atol=0.015)


def test_with_few_passes_the_likeliest_class_is_exact(generator: torch.Generator) -> None:
    found = hessian_square_root(torch.tensor([[0.005, 0.6, 0.005, 0.39]]), 2, generator)
    column = torch.tensor([-0.005, 0.4, -0.005, -0.39]) * (0.6 / 0.4) ** 0.5
    torch.testing.assert_close(found[0, 0], column)


def test_few_passes_are_unbiased_against_brute_force(images: Tensor, head: Head) -> None:
    model = make_tiny_vit()
    layers = tuned_layers(model)
    want = brute_force(model, [layer.weight for layer in layers.values()], images, head)
    generator = torch.Generator().manual_seed(1)
    tenfold = images.repeat(10, 1, 1, 1)  # ten draws in one: each example draws for itself
    draws = [
        DiagonalCurvature.estimate(model, layers, head, [tenfold], passes=2, generator=generator)[0].values
        for _ in range(40)
    ]
    for got, expected in zip(zip(*(draw.values() for draw in draws), strict=True), want, strict=True):
        stacked = torch.stack(got) / 10
        error = stacked.std(0) / len(draws) ** 0.5
        z = (stacked.mean(0) - expected).abs()[error > 1e-12] / error[error > 1e-12]
        assert z.max() < 5.5  # the largest of a thousand standard normal deviations or so
    assert exact(model, head, [images], passes=4)[0].keys() == exact(model, head, [images])[0].keys()
    for got, expected in zip(exact(model, head, [images], passes=4)[0].values(), want, strict=True):
        torch.testing.assert_close(got.detach(), expected.detach(), rtol=1e-10, atol=1e-12)  # C - 1 passes are exact


def test_layers_that_see_one_token_are_exact_in_one_pass(images: Tensor, head: Head) -> None:
    model = make_tiny_vit()
    read_class_token_only(model)
    few, true = exact(model, head, [images], passes=1)[0], exact(model, head, [images])[0]
    equal = {name for name in true if torch.allclose(few[name], true[name], rtol=1e-10, atol=1e-12)}
    assert equal == {f"blocks.1.{name}.weight" for name in ("attn.proj", "mlp.fc1", "mlp.fc2")}


@pytest.mark.parametrize(
    ("scale", "largest"), [(5.0, 0.01), (1.0, 0.03), (0.05, 0.03)], ids=["peaked", "between", "flat"]
)
def test_error_of_eight_passes_at_100_classes(scale: float, largest: float, generator: torch.Generator) -> None:
    model = make_tiny_vit()
    images = torch.randn(400, 1, 8, 8, generator=generator, dtype=torch.float64)
    head = (scale * torch.randn(100, 8, generator=generator, dtype=torch.float64), torch.zeros(100).double())
    read_class_token_only(model)
    layers = tuned_layers(model)
    true, got = (
        DiagonalCurvature.estimate(model, layers, head, [images], passes=passes, generator=generator)[0].values
        for passes in (None, 8)
    )
    error = sum((got[name] - true[name]).square().sum() for name in true) ** 0.5
    assert error <= largest * sum(value.square().sum() for value in true.values()) ** 0.5


def test_chunks_that_bound_memory_change_nothing(images: Tensor, head: Head, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_tiny_vit()
    whole, _ = exact(model, head, [images])
    monkeypatch.setattr(passes_module, "CHUNK_BYTES", {"cpu": 1})
    for name, value in exact(model, head, [images])[0].items():
        torch.testing.assert_close(value, whole[name], rtol=1e-10, atol=1e-12)
