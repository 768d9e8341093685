"""Three parametrisations behind one contract: dense tau and closed-form gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.support.tiny_vit import make_tiny_vit
from trainables.curvature import Curvature, DiagonalCurvature, Factors, KroneckerCurvature
from trainables.methods.composable.penalty import Coefficients, LayerPenalty
from trainables.task_vectors import FullTaskVectors, IA3TaskVectors, LoRATaskVectors, TaskVectors, lora

KINDS: dict[str, Callable[..., TaskVectors]] = {
    "full": FullTaskVectors,
    "ia3": IA3TaskVectors,
    "lora, built": lambda model: LoRATaskVectors(model, rank=2),
    "lora, factors": lambda model: LoRATaskVectors(model, rank=2),
}


@pytest.fixture(params=KINDS)
def vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TaskVectors:
    monkeypatch.setattr(lora, "BUILT_BELOW", 0 if request.param == "lora, factors" else 1e9)
    made = KINDS[request.param](make_tiny_vit())
    made.model.to(torch.float64)
    return made


def shake(vectors: TaskVectors, seed: int) -> None:
    """Give tau a random value."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in vectors.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)


def explicit(weights: dict[str, Tensor], images: Tensor) -> Tensor:
    """The features of a plain ViT with these tuned weights."""
    model = make_tiny_vit()
    model.load_state_dict({**model.state_dict(), **weights})
    with torch.no_grad():
        return model(images)


def test_starts_at_theta_0(vectors: TaskVectors, images: Tensor, generator: torch.Generator) -> None:
    vectors.begin(1.0, generator)
    shake(vectors, 0)  # the task before
    vectors.begin(1.0, generator)
    assert len(vectors.theta_0) == 8  # four weights in each of two blocks
    assert all(not vectors.dense(name).any() for name in vectors.theta_0)
    torch.testing.assert_close(vectors.model(images), explicit({}, images))


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_parameters_are_where_the_backbone_is(make: Callable[..., TaskVectors]) -> None:
    on_meta = make(make_tiny_vit().to("meta"))
    tensors = [*on_meta.model.state_dict().values(), *on_meta.parameters(), *on_meta.theta_0.values()]
    assert {tensor.device.type for tensor in tensors} == {"meta"}


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_forward_uses_base_plus_scaled_dense_tau(
    vectors: TaskVectors, images: Tensor, generator: torch.Generator, scale: float
) -> None:
    base = {n: w + torch.randn(w.shape, generator=generator).double() * 0.1 for n, w in vectors.theta_0.items()}
    for name, weight in base.items():
        vectors.set_base(name, weight)
    vectors.begin(scale, generator)
    shake(vectors, 1)
    dense = {name: vectors.dense(name).detach() for name in vectors.theta_0}
    assert all(tau.any() for tau in dense.values())
    wanted = explicit({n: w + scale * dense[n] for n, w in base.items()}, images)
    torch.testing.assert_close(vectors.model(images), wanted)
    vectors.disable()
    torch.testing.assert_close(vectors.model(images), explicit(base, images))


def diagonal(vectors: TaskVectors, generator: torch.Generator) -> tuple[Curvature, dict[str, Tensor]]:
    """Random diagonals, and the dense matrices `(out * in, out * in)` that they are."""
    fisher = {n: torch.rand(w.shape, generator=generator).double() for n, w in vectors.theta_0.items()}
    return DiagonalCurvature(fisher), {name: torch.diag(value.flatten()) for name, value in fisher.items()}


def kronecker(vectors: TaskVectors, generator: torch.Generator) -> tuple[Curvature, dict[str, Tensor]]:
    """Random factors with a shift, and the dense matrices."""
    factors, dense = {}, {}
    for name, weight in vectors.theta_0.items():
        roots = [torch.randn(size, size, generator=generator).double() / size**0.5 for size in weight.shape]
        outputs, inputs = (root @ root.T for root in roots)
        factors[name] = Factors(inputs[None], outputs[None])
        dense[name] = 0.1 * torch.eye(weight.numel()).double() + torch.kron(outputs, inputs)
    return KroneckerCurvature(factors).shifted(0.1), dense


@pytest.mark.parametrize("t", [1, 2, 5])
@pytest.mark.parametrize("form", ["ita", "iel"])
@pytest.mark.parametrize("kind", [diagonal, kronecker])
def test_regulariser_gradients_equal_autograd(
    vectors: TaskVectors,
    generator: torch.Generator,
    t: int,
    form: str,
    kind: Callable[..., tuple[Curvature, dict[str, Tensor]]],
) -> None:
    curvature, dense = kind(vectors, generator)
    past = {n: (t - 1) * torch.randn(w.shape, generator=generator).double() for n, w in vectors.theta_0.items()}
    c = (
        Coefficients(0.7)
        if form == "ita"
        else Coefficients(current_strength=3 / t * (1 - 1 / t), past_strength=3 / t / t)
    )
    vectors.begin(1.0, generator)
    shake(vectors, 2)
    loss = torch.zeros((), dtype=torch.float64)
    for name, matrix in dense.items():
        tau = vectors.dense(name).flatten()
        loss = loss + tau @ matrix @ (0.5 * c.current_strength * tau - c.past_strength * past[name].flatten())
    expected = torch.autograd.grad(loss, vectors.parameters())
    penalty = LayerPenalty(curvature, c, past, vectors.stacks)
    assert penalty.value(vectors) == pytest.approx(float(loss.detach()), rel=1e-10)
    pairs = penalty.gradients(vectors)
    assert [id(p) for p, _ in pairs] == [id(p) for p in vectors.parameters()]
    for (_, got), want in zip(pairs, expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)


def test_lora_rank_and_starts(generator: torch.Generator) -> None:
    for init, spread in (("gaussian", 1 / 4), ("uniform", 1 / (4 * 8) ** 0.5 / 3**0.5)):
        vectors = LoRATaskVectors(make_tiny_vit(), rank=4, init=init)  # type: ignore[arg-type]
        draws = []
        for _ in range(200):
            vectors.begin(1.0, generator)
            a, b = vectors.factors("blocks.0.mlp.fc1.weight")
            draws.append(a.detach().clone())
            assert a.shape == (4, 8) and b.shape == (16, 4) and not b.any()
        assert float(torch.stack(draws).std()) == pytest.approx(spread, rel=0.05)
        assert vectors.factors("blocks.0.attn.qkv.weight")[0].shape == (12, 8)


@pytest.mark.parametrize(("rank", "built"), [(1, False), (16, True)])
def test_lora_builds_weights_where_that_is_cheaper_and_in_whole_precision(
    rank: int, built: bool, images: Tensor, generator: torch.Generator
) -> None:
    vectors = LoRATaskVectors(make_tiny_vit(dtype=torch.float32, width=64), rank=rank)
    vectors.begin(1.0, generator)
    seen = []
    layer = vectors.model.get_submodule("blocks.0.mlp.fc1")
    layer.register_forward_pre_hook(lambda m, _: seen.append((m.factors is None, m.weight.dtype)))
    with torch.autocast("cpu", torch.bfloat16):
        vectors.model(images.float())
    assert seen == [(built, torch.float32)]  # a small tau is lost in a half-precision sum


@pytest.mark.parametrize(
    ("device", "half", "built"), [("cuda", True, True), ("cuda", False, False), ("cpu", True, False)]
)
def test_lora_builds_all_weights_in_bf16_on_a_gpu(
    device: str, half: bool, built: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: half)
    assert lora.is_built(768 * 3072, 16 * (768 + 3072), torch.device(device)) is built
