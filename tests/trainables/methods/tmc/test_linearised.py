"""The linearised ViT: the authors' products and gradients, differences, and what an affine model must do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call, jvp

from tests.support.methods.tiny_trials import TinyBackbone, tiny_context, tiny_tasks
from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones import Backbone
from trainables.backbones.linearised.network import CLASSIFIER, LinearisedViT, Vector
from trainables.methods.tmc import TMC, TMCConfig

ORACLE: Any = np.load(Path(__file__).parent / "oracles" / "tmc_linear_vit.npz", allow_pickle=False)


def oracle(name: str) -> Tensor:
    return torch.from_numpy(ORACLE[name])


def named(prefix: str) -> Vector:
    """Tensors of the oracle under our names."""
    found = {
        name.removeprefix(prefix).replace("linear_", ""): oracle(name)
        for name in ORACLE.files
        if name.startswith(prefix)
    }
    return {name.replace("head.", "classifier."): value for name, value in found.items()}


def of_the_oracle(dtype: torch.dtype) -> TMC:
    tasks = tiny_tasks((5, 5), per_class=2)
    method = TMC(tiny_context(tasks), TMCConfig(lr=0.1))
    vit = Backbone().load(attention="plain").to(dtype)
    head = (oracle("head_w").to(dtype), oracle("head_b").to(dtype))
    method.model = LinearisedViT(vit, head, "fp32", method.context.device)
    method.begin_task(tasks[0])
    tangents = named("tangent__")
    assert tangents.keys() == method.tau.keys()
    for name, part in method.tau.items():
        part.data = tangents[name].to(dtype)
    return method


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_products_and_gradients_are_those_of_the_authors_code(dtype: torch.dtype) -> None:
    accuracy = 1e-4  # of theirs, which is float32; products they have in float64 as well
    method, x, y = of_the_oracle(dtype), oracle("x").to(dtype), oracle("y")
    tau = {name: part.detach() for name, part in method.tau.items()}
    at_0 = method.model.logits(x, method.model.zero())
    along = method.model.logits(x, tau) - at_0
    torch.testing.assert_close(at_0, oracle("f").to(dtype), rtol=accuracy, atol=accuracy)
    torch.testing.assert_close(along, oracle("jvp").to(dtype), rtol=accuracy, atol=accuracy)
    exact = 1e-9 if dtype == torch.float64 else accuracy
    torch.testing.assert_close(along.double(), oracle("jvp_float64_torch_func"), rtol=exact, atol=exact)
    loss, gradients = method.model.gradients(x, tau, method._loss(y, range(5)))
    assert float(loss) == pytest.approx(float(ORACLE["rsl_kappa15"]), rel=accuracy)
    cross_entropy, _ = method.model.gradients(x, tau, lambda logits: F.cross_entropy(logits, y))
    assert float(cross_entropy) == pytest.approx(float(ORACLE["ce"]), rel=accuracy)
    norm = method.config.penalty / float(method._decay())
    assert norm == pytest.approx(float(ORACLE["l2_penalty"]), rel=accuracy)
    wanted = named("grad__")
    assert len(wanted) == 6
    for name, gradient in wanted.items():
        ours = gradients[name] + method._decay() * tau[name]
        torch.testing.assert_close(ours, gradient.to(dtype), rtol=1e-3, atol=1e-4 * float(gradient.abs().max()))


class Brute:
    """The same model by functional calls of an unchanged ViT."""

    def __init__(self, classes: int = 5) -> None:
        generator = torch.Generator().manual_seed(1)
        self.vit = make_tiny_vit()
        self.head = tuple(
            torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((classes, 8), (classes,))
        )
        vit = TinyBackbone().load(attention="plain")
        self.model = LinearisedViT(vit, (self.head[0], self.head[1]), "fp32", torch.device("cpu"))
        self.x = torch.randn(3, 1, 8, 8, generator=generator, dtype=torch.float64)
        self.taus = [
            {
                n: 0.3 * torch.randn(z.shape, generator=generator, dtype=torch.float64)
                for n, z in self.model.zero().items()
            }
            for _ in range(2)
        ]

    def weights(self) -> Vector:
        inner = {name: part.detach() for name, part in self.vit.named_parameters() if name in self.model.zero()}
        return {**inner, **dict(zip(CLASSIFIER, self.head, strict=True))}

    def f(self, weights: Vector) -> Tensor:
        inner = {name: value for name, value in weights.items() if name not in CLASSIFIER}
        features = functional_call(self.vit, inner, (self.x,))
        return features @ weights[CLASSIFIER[0]].T + weights[CLASSIFIER[1]]

    def moved(self, tau: Vector, by: float) -> Vector:
        return {name: value + by * tau[name] for name, value in self.weights().items()}


def test_the_derivative_is_that_of_finite_differences() -> None:
    brute, h = Brute(), 1e-5
    tau = brute.taus[0]
    difference = (brute.f(brute.moved(tau, h)) - brute.f(brute.moved(tau, -h))) / (2 * h)
    along = brute.model.logits(brute.x, tau) - brute.f(brute.weights())
    torch.testing.assert_close(along, difference.detach(), rtol=1e-6, atol=1e-6)


def test_it_is_f_at_0_and_affine() -> None:
    brute = Brute()
    one, two = brute.taus
    torch.testing.assert_close(brute.model.logits(brute.x, brute.model.zero()), brute.f(brute.weights()).detach())
    between = {name: 0.3 * one[name] + 0.7 * two[name] for name in one}
    parts = [brute.model.logits(brute.x, tau) for tau in (one, two)]
    torch.testing.assert_close(brute.model.logits(brute.x, between), 0.3 * parts[0] + 0.7 * parts[1])


def curved(logits: Tensor) -> Tensor:
    """A loss whose derivative depends on where it is taken."""
    return (logits**3).mean() + logits.exp().mean()


def test_gradients_are_those_of_finite_differences() -> None:
    brute, h = Brute(), 1e-6
    tau = brute.taus[0]
    loss, gradients = brute.model.gradients(brute.x, tau, curved)
    assert float(loss) == float(curved(brute.model.logits(brute.x, tau))) and not loss.requires_grad
    for name, value in tau.items():
        for k in {0, value.numel() // 2, value.numel() - 1}:
            ends = []
            for sign in (1, -1):
                moved = value.clone().flatten()
                moved[k] += sign * h
                ends.append(curved(brute.model.logits(brute.x, {**tau, name: moved.view_as(value)})))
            difference = float(ends[0] - ends[1]) / (2 * h)
            assert float(gradients[name].flatten()[k]) == pytest.approx(difference, rel=1e-5, abs=1e-6)


def test_gradients_are_those_of_a_backward_pass_through_forward_mode() -> None:
    brute = Brute()
    for layer in brute.vit.blocks:
        layer.attn.fused_attn = False
    tau = {name: value.clone().requires_grad_() for name, value in brute.taus[1].items()}
    value, along = jvp(brute.f, (brute.weights(),), (tau,))
    wanted = torch.autograd.grad(curved(value + along), list(tau.values()))
    _, gradients = brute.model.gradients(brute.x, tau, curved)
    for name, gradient in zip(tau, wanted, strict=True):
        torch.testing.assert_close(gradients[name], gradient)


def test_all_but_embeddings_have_tangents_and_theta_0_stays() -> None:
    brute = Brute()
    names = set(brute.model.zero())
    assert names == {
        name for name in dict(brute.vit.named_parameters()) if name.startswith(("blocks.", "norm."))
    } | set(CLASSIFIER)
    before = {name: value.clone() for name, value in brute.model.vit.state_dict().items()}
    brute.model.gradients(brute.x, brute.taus[0], curved)
    assert all(torch.equal(value, before[name]) for name, value in brute.model.vit.state_dict().items())
    assert all(leaf.grad is None for leaf in brute.model.theta_0.values())
    assert not any(part.requires_grad for part in brute.model.vit.parameters())
