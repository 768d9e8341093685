"""The curvature of the features against loops over images, tokens and coordinates, in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones.class_token import read_class_token_only
from trainables.backbones.linearised.network import tangent_layers, tangent_weights
from trainables.curvature import FeatureCurvature, feature_curvature

TANGENT = ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
EXACT = {"rtol": 1e-9, "atol": 1e-11}


@pytest.fixture
def images() -> Tensor:
    return torch.randn(5, 1, 8, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def test_every_layer_of_the_blocks_and_the_last_norm_have_a_tangent() -> None:
    layers = tangent_layers(make_tiny_vit())
    assert list(layers) == [*(f"blocks.{block}.{layer}" for block in (0, 1) for layer in TANGENT), "norm"]


def found(model: nn.Module, batches: list[Tensor], draws: int | None = None, seed: int = 0) -> FeatureCurvature:
    return feature_curvature(model, batches, draws=draws, generator=torch.Generator().manual_seed(seed))  # type: ignore[arg-type]


def jacobians(model: nn.Module, image: Tensor, of: list[Tensor]) -> list[Tensor]:
    """The derivative of every feature of one image by some tensors, `(d, ...)` each."""
    phi = model(image[None])[0]
    rows = [torch.autograd.grad(each, of, retain_graph=True) for each in phi]
    return [torch.stack(parts) for parts in zip(*rows, strict=True)]


def looped(model: nn.Module, images: Tensor) -> tuple[dict[str, tuple[Tensor, Tensor]], dict[str, Tensor]]:
    """A summed and G averaged over images by layer, and J^T J of every other weight."""
    taken: dict[str, tuple[Tensor, Tensor]] = {}
    layers = {name: each for name, each in tangent_layers(model).items() if isinstance(each, nn.Linear)}
    hooks = [
        layer.register_forward_hook(lambda _, inputs, output, name=name: taken.update({name: (inputs[0], output)}))
        for name, layer in layers.items()
    ]
    weights = tangent_weights(model, class_token=True)
    others = {name: weight for name, weight in weights.items() if name.rpartition(".")[0] not in layers}
    factors: dict[str, tuple[Tensor, Tensor]] = {}
    squares = {name: torch.zeros(2 * (weight.shape[-1],)).double() for name, weight in others.items()}
    for image in images:
        for total, jacobian in zip(squares.values(), jacobians(model, image, list(others.values())), strict=True):
            rows = jacobian.flatten(1)
            total += rows.T @ rows
        phi = model(image[None])[0]
        for name, layer in layers.items():
            inputs, output = taken[name]
            a = inputs[0] if layer.bias is None else F.pad(inputs[0], (0, 1), value=1.0)
            g = torch.stack([torch.autograd.grad(each, output, retain_graph=True)[0][0] for each in phi])  # [d, n, out]
            one = (a.T @ a / len(a), sum(t.T @ t for t in g.unbind(1)) / len(a) / len(images))
            before = factors.get(name, (0, 0))
            factors[name] = (before[0] + one[0].detach(), before[1] + one[1])  # type: ignore[assignment]
    for hook in hooks:
        hook.remove()
    return factors, squares


@pytest.mark.parametrize("short", [False, True], ids=["whole", "class token"])
@pytest.mark.parametrize("split", [[5], [1, 1, 3]])
def test_it_is_that_of_loops_whatever_the_batches(split: list[int], short: bool, images: Tensor) -> None:
    model = make_tiny_vit()
    if short:
        read_class_token_only(model)
    curvature = found(model, list(images.split(split)))
    factors, squares = looped(model, images)
    assert curvature.examples == 5 and "cls_token" in squares and "norm.bias" in squares
    assert curvature.layers.factors.keys() == factors.keys() and curvature.affine.factors.keys() == squares.keys()
    for name, (a, g) in factors.items():
        torch.testing.assert_close(curvature.layers.factors[name].inputs[0], a, **EXACT)
        torch.testing.assert_close(curvature.layers.factors[name].outputs[0], g, **EXACT)
    for name, square in squares.items():
        torch.testing.assert_close(curvature.affine.factors[name].inputs[0], square, **EXACT)
        assert curvature.affine.factors[name].outputs.tolist() == [[[1.0]]]


def test_draws_are_unbiased_and_averaged(images: Tensor) -> None:
    model = make_tiny_vit()
    true = found(model, [images])
    many = images.repeat(40, 1, 1, 1)
    draws = [found(model, [many], draws=2, seed=seed) for seed in range(12)]
    for kind in ("layers", "affine"):
        for name, want in getattr(true, kind).factors.items():
            scale = 1 if kind == "layers" else 40  # G is a mean over images, F a sum
            part = "outputs" if kind == "layers" else "inputs"
            got = torch.stack([getattr(getattr(draw, kind).factors[name], part) for draw in draws]) / scale
            wanted = getattr(want, part)
            assert (got.mean(0) - wanted).norm() < 0.1 * wanted.norm(), name  # of 4800 draws


def test_weights_and_modes_stay_and_nothing_global_is_drawn(images: Tensor) -> None:
    model = make_tiny_vit().requires_grad_(False)
    before, state = {n: p.clone() for n, p in model.state_dict().items()}, torch.get_rng_state()
    found(model, [images], draws=1)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(part.requires_grad for part in model.parameters()) and torch.equal(state, torch.get_rng_state())


def test_what_it_saves_is_read_again_and_tasks_add_up(images: Tensor) -> None:
    model = make_tiny_vit()
    one, two = found(model, [images[:2]]), found(model, [images[2:]])
    both = one.plus(two)
    again = FeatureCurvature.from_tensors({name: value.clone() for name, value in both.tensors().items()})
    assert again.examples == 5 and again.layers.tasks == 2
    whole = found(model, [images])
    for name, factors in again.layers.factors.items():
        torch.testing.assert_close(factors.inputs, whole.layers.factors[name].inputs, **EXACT)
        mean = (one.layers.factors[name].outputs + two.layers.factors[name].outputs) / 2
        torch.testing.assert_close(factors.outputs, mean, **EXACT)
    for name, factors in again.affine.factors.items():
        torch.testing.assert_close(factors.inputs, whole.affine.factors[name].inputs, **EXACT)
