"""Kronecker factors against dense Gauss-Newton matrices and against loops, in float64."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones import tuned_layers
from trainables.backbones.class_token import read_class_token_only
from trainables.curvature import Factors, KroneckerCurvature
from trainables.heads import Head

EXACT = {"rtol": 1e-9, "atol": 1e-11}


class Network(nn.Module):
    """Two linear layers over `(b, n, 4)`, with or without tanh between; features are the mean over tokens, `(b, 4)`."""

    def __init__(self, generator: torch.Generator, *, linear: bool) -> None:
        super().__init__()
        self.first, self.second = (nn.Linear(4, 4).double() for _ in range(2))
        self.linear = linear
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.first(x)
        return self.second(inner if self.linear else inner.tanh()).mean(1)

    @property
    def layers(self) -> dict[str, nn.Linear]:
        return {"first": self.first, "second": self.second}


def a_head(classes: int, width: int, generator: torch.Generator) -> Head:
    draw = [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((classes, width), (classes,))]
    return draw[0], draw[1]


def found(
    model: nn.Module, layers: dict[str, nn.Linear], head: Head, batches: Iterable[Tensor], passes: int | None = None
) -> tuple[KroneckerCurvature, int]:
    generator = torch.Generator().manual_seed(1)
    return KroneckerCurvature.estimate(model.eval(), layers, head, batches, passes=passes, generator=generator)


def gauss_newton(model: nn.Module, weight: Tensor, images: Tensor, head: Head) -> Tensor:
    """The dense block of one weight, summed over examples: J^T (diag(p) - p p^T) J."""
    weight.requires_grad_(True)
    total = torch.zeros(2 * (weight.numel(),), dtype=torch.float64)
    for image in images:
        logits = F.linear(model(image[None]), *head)[0]
        p = logits.detach().softmax(0)
        rows = [torch.autograd.grad(logit, weight, retain_graph=True)[0].flatten() for logit in logits]
        jacobian = torch.stack(rows)
        total += jacobian.T @ (torch.diag(p) - torch.outer(p, p)) @ jacobian
    return total


def block(curvature: KroneckerCurvature, name: str) -> Tensor:
    factors = curvature.factors[name]
    return torch.kron(factors.outputs[0].contiguous(), factors.inputs[0].contiguous())


@pytest.mark.parametrize("passes", [None, 2])
def test_one_token_of_one_example_is_exact(passes: int | None, generator: torch.Generator) -> None:
    model, head = Network(generator, linear=False), a_head(3, 4, generator)
    image = torch.randn(1, 1, 4, generator=generator, dtype=torch.float64)
    curvature, examples = found(model, model.layers, head, [image], passes)
    assert examples == 1
    for name, layer in model.layers.items():
        want = gauss_newton(model, layer.weight, image, head)
        torch.testing.assert_close(block(curvature, f"{name}.weight"), want, **EXACT)


def test_a_linear_network_with_equal_predictions_is_exact_over_examples(generator: torch.Generator) -> None:
    """G is then the same for all examples; inputs that differ by what the classifier does not see make it so."""
    model, head = Network(generator, linear=True), a_head(3, 4, generator)
    unseen = torch.linalg.svd(head[0])[2][3]  # in the null space of the classifier
    through = model.second.weight.detach() @ model.first.weight.detach()
    step = torch.linalg.solve(through, unseen)
    start = torch.randn(4, generator=generator, dtype=torch.float64)
    images = torch.stack([start + k * step for k in (0.0, 1.0, -0.5)])[:, None]
    curvature, _ = found(model, model.layers, head, [images[:1], images[1:]])
    for name, layer in model.layers.items():
        want = gauss_newton(model, layer.weight, images, head)
        torch.testing.assert_close(block(curvature, f"{name}.weight"), want, **EXACT)
    other = images + torch.randn(images.shape, generator=generator, dtype=torch.float64)
    curvature, _ = found(model, model.layers, head, [other])
    want = gauss_newton(model, model.first.weight, other, head)
    assert not torch.allclose(block(curvature, "first.weight"), want, rtol=1e-3)  # elsewhere it is an approximation


def test_the_error_of_one_token_is_the_covariance_of_its_factors_over_examples(generator: torch.Generator) -> None:
    """E[G_n (x) A_n] - E[G_n] (x) E[A_n]: what the factorisation leaves out, on a network of 32 weights."""
    model, head = Network(generator, linear=False), a_head(3, 4, generator)
    images = torch.randn(6, 1, 4, generator=generator, dtype=torch.float64)
    both, _ = found(model, model.layers, head, images.split([4, 2]))
    single = [found(model, model.layers, head, [image[None]])[0] for image in images]  # each exact
    for name, layer in ((f"{name}.weight", layer) for name, layer in model.layers.items()):
        pairs = [(each.factors[name].outputs[0], each.factors[name].inputs[0]) for each in single]
        mean_g, mean_a = (torch.stack(parts).mean(0) for parts in zip(*pairs, strict=True))
        error = torch.stack([torch.kron(g - mean_g, a - mean_a) for g, a in pairs]).sum(0)
        dense = gauss_newton(model, layer.weight, images, head)
        assert error.norm() > 0.05 * dense.norm()
        torch.testing.assert_close(block(both, name) + error, dense, **EXACT)


def looped(
    model: nn.Module, layers: dict[str, nn.Linear], images: Tensor, head: Head
) -> dict[str, tuple[Tensor, Tensor]]:
    """A summed over examples and mean G, image by image, token by token and class by class."""
    taken: dict[str, tuple[Tensor, Tensor]] = {}
    hooks = [
        layer.register_forward_hook(lambda _, inputs, output, name=name: taken.update({name: (inputs[0], output)}))
        for name, layer in layers.items()
    ]
    sums = {name: (torch.zeros(2 * (layer.in_features,)).double(), torch.zeros(2 * (layer.out_features,)).double())
            for name, layer in layers.items()}  # fmt: skip
    for layer in layers.values():
        layer.weight.requires_grad_(True)
    for image in images:
        logits = F.linear(model(image[None]), *head)[0]
        p = logits.softmax(0).detach()
        for name, (inputs, output) in taken.items():
            a, g = sums[name]
            rows = torch.stack([torch.autograd.grad(logit, output, retain_graph=True)[0][0] for logit in logits])
            for token in range(output.shape[1]):
                jacobian = rows[:, token]  # [C, out]
                a += torch.outer(inputs[0, token], inputs[0, token]).detach() / output.shape[1]
                g += jacobian.T @ (torch.diag(p) - torch.outer(p, p)) @ jacobian / len(images)
    for hook in hooks:
        hook.remove()
    return sums


@pytest.mark.parametrize("short", [False, True], ids=["whole", "class token"])
@pytest.mark.parametrize("split", [[12], [1] * 12, [3, 4, 5]])
def test_factors_of_a_vit_are_those_of_loops_whatever_the_batches(
    split: list[int], short: bool, images: Tensor, generator: torch.Generator
) -> None:
    model, head = make_tiny_vit(), a_head(5, 8, generator)
    if short:
        read_class_token_only(model)
    layers = tuned_layers(model)
    curvature, examples = found(model, layers, head, images.split(split))
    assert examples == 12 and curvature.factors.keys() == {f"{name}.weight" for name in layers}
    for name, (a, g) in looped(model, layers, images, head).items():
        factors = curvature.factors[f"{name}.weight"]
        torch.testing.assert_close(factors.inputs, a[None], **EXACT)
        torch.testing.assert_close(factors.outputs, g[None], **EXACT)


def test_few_passes_are_unbiased(images: Tensor, generator: torch.Generator) -> None:
    model, head = make_tiny_vit(), a_head(5, 8, generator)
    layers = tuned_layers(model)
    true, _ = found(model, layers, head, [images])
    tenfold = images.repeat(10, 1, 1, 1)
    draws = [
        KroneckerCurvature.estimate(model, layers, head, [tenfold], passes=2, generator=generator)[0] for _ in range(30)
    ]
    for name, want in true.factors.items():
        stacked = torch.stack([draw.factors[name].outputs for draw in draws])
        torch.testing.assert_close(draws[0].factors[name].inputs, 10 * want.inputs, **EXACT)
        error = stacked.std(0) / len(draws) ** 0.5
        z = (stacked.mean(0) - want.outputs).abs()[error > 1e-12] / error[error > 1e-12]
        assert z.max() < 5.5  # the largest of a thousand standard normal deviations or so


def test_averages_over_tasks_are_those_of_tak_over_the_number_of_tasks(generator: torch.Generator) -> None:
    model, head = Network(generator, linear=False), a_head(3, 4, generator)
    sets = [torch.randn(count, 2, 4, generator=generator, dtype=torch.float64) for count in (3, 5, 2)]
    tasks = [found(model, model.layers, head, [images])[0] for images in sets]
    mean = tasks[0].plus(tasks[1]).plus(tasks[2]).mean_over(10)
    assert mean.tasks == 3
    for name, got in mean.factors.items():
        inputs = sum(task.factors[name].inputs for task in tasks) / 10
        outputs = sum(task.factors[name].outputs for task in tasks) / 3
        torch.testing.assert_close(got.inputs, inputs, **EXACT)
        torch.testing.assert_close(got.outputs, outputs, **EXACT)


def test_a_weight_counts_a_task_so_many_times(generator: torch.Generator) -> None:
    one, other = (
        KroneckerCurvature({"w": Factors(*(torch.rand(1, 3, 3, generator=generator).double() for _ in range(2)))})
        for _ in range(2)
    )
    found, repeated = one.plus(other, 3.0), one.plus(other).plus(other).plus(other)
    assert found.tasks == repeated.tasks == 4
    torch.testing.assert_close(found.factors["w"].inputs, repeated.factors["w"].inputs, **EXACT)
    torch.testing.assert_close(found.factors["w"].outputs, repeated.factors["w"].outputs, **EXACT)
