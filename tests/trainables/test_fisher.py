"""The true diagonal Fisher against a loop over every example and class, in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.conftest import make_tiny_vit
from trainables.backbones import tuned_layers
from trainables.preconsolidation.fisher import head_fisher, layer_fisher, seeds

Head = tuple[Tensor, Tensor]


@pytest.fixture
def head(generator: torch.Generator) -> Head:
    return (
        torch.randn(5, 8, generator=generator, dtype=torch.float64),
        torch.randn(5, generator=generator, dtype=torch.float64),
    )


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


@pytest.mark.parametrize("split", [[12], [1] * 12, [5, 7], [3, 4, 5]])
def test_equals_brute_force_whatever_the_batches(split: list[int], images: Tensor, head: Head) -> None:
    model = make_tiny_vit()
    layers = tuned_layers(model)
    fisher, examples = layer_fisher(model, layers, head, images.split(split))
    expected = brute_force(model, [layer.weight for layer in layers.values()], images, head)
    assert examples == 12
    for got, want in zip(fisher.values(), expected, strict=True):
        torch.testing.assert_close(got.detach(), want.detach(), rtol=1e-10, atol=1e-12)


def test_sum_over_tasks_is_the_sum_over_their_union(images: Tensor, head: Head) -> None:
    model = make_tiny_vit()
    layers = tuned_layers(model)
    parts = [layer_fisher(model, layers, head, [images[rows]])[0] for rows in (slice(0, 5), slice(5, 12))]
    union, _ = layer_fisher(model, layers, head, [images])
    for name in union:
        torch.testing.assert_close(parts[0][name] + parts[1][name], union[name], rtol=1e-10, atol=1e-12)


def test_leaves_the_model_as_it_was(images: Tensor, head: Head) -> None:
    model = make_tiny_vit().requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    layer_fisher(model, tuned_layers(model), head, [images])
    assert all(p.grad is None and not p.requires_grad for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(layer._forward_hooks for layer in tuned_layers(model).values())


def test_refuses_train_mode_and_no_examples(images: Tensor, head: Head) -> None:
    model = make_tiny_vit()
    with pytest.raises(ValueError, match="at least one example"):
        layer_fisher(model, tuned_layers(model), head, [])
    model.train()
    with pytest.raises(ValueError, match="eval mode"):
        layer_fisher(model, tuned_layers(model), head, [images])


def test_expected_score_is_zero_and_seeds_factor_the_curvature(generator: torch.Generator) -> None:
    p = torch.randn(4, 6, generator=generator, dtype=torch.float64).softmax(1)
    s = seeds(p)
    torch.testing.assert_close((p.T.sqrt()[:, :, None] * s).sum(0), torch.zeros(4, 6, dtype=torch.float64))
    curvature = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    torch.testing.assert_close(torch.einsum("kbi,kbj->bij", s, s), curvature)


def test_head_fisher_equals_brute_force(generator: torch.Generator, head: Head) -> None:
    features = torch.randn(7, 8, generator=generator, dtype=torch.float64)
    weight, bias = (part.clone().requires_grad_() for part in head)
    sums = [torch.zeros_like(weight), torch.zeros_like(bias)]
    for x in features:
        log_p = F.linear(x, weight, bias).log_softmax(0)
        for k in range(5):
            gradients = torch.autograd.grad(log_p[k], (weight, bias), retain_graph=True)
            for total, gradient in zip(sums, gradients, strict=True):
                total += log_p[k].exp().detach() * gradient**2 / len(features)
    got = head_fisher(features, head, slice(3, 5))
    torch.testing.assert_close(got[0], sums[0][3:5])
    torch.testing.assert_close(got[1], sums[1][3:5])


def test_head_fisher_of_no_features_is_zero(head: Head) -> None:
    weight, bias = head_fisher(torch.empty(0, 8, dtype=torch.float64), head, slice(0, 2))
    assert weight.shape == (2, 8) and bias.shape == (2,) and not weight.any() and not bias.any()
