"""Blocks in dual numbers, written out: what torch's forward mode finds, in float64, as they are and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones.attention import write_out
from trainables.backbones.class_token import read_class_token_only
from trainables.backbones.compiling import as_compiled, compile_blocks
from trainables.backbones.few_tokens import attend_among_few
from trainables.backbones.linearised import dual_block
from trainables.backbones.linearised.dual_block import DualBlock, write_blocks_out
from trainables.backbones.linearised.network import LinearisedFeatures, Vector

CPU = torch.device("cpu")


def all_tokens(vit: VisionTransformer) -> None:
    """Leave the last block whole: it is the class token alone that is read of it."""


KINDS: dict[str, tuple[Callable[[VisionTransformer], None], dict[str, Any]]] = {
    "class token": (read_class_token_only, {}),
    "all tokens": (all_tokens, {}),
    "mean of tokens": (all_tokens, {"global_pool": "avg"}),
    "few tokens": (attend_among_few, {}),
    "no bias": (read_class_token_only, {"qkv_bias": False}),
}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[[], VisionTransformer]:
    change, options = KINDS[request.param]

    def made() -> VisionTransformer:
        vit = make_tiny_vit(depth=3, **options)
        change(vit)
        write_out(vit)
        return vit

    return made


def images(count: int = 4) -> Tensor:
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(count), dtype=torch.float64)


def vector(model: LinearisedFeatures) -> Vector:
    generator = torch.Generator().manual_seed(1)
    return {n: 0.3 * torch.randn(z.shape, generator=generator, dtype=z.dtype) for n, z in model.zero().items()}


def found(model: LinearisedFeatures) -> tuple[Tensor, Vector]:
    """Features along a task vector, and the gradients of a loss."""
    tau = vector(model)
    _, gradients, _ = model.feature_gradients(images(), tau, lambda phi: (phi**3).mean() + phi.exp().mean())
    return model.features(images(), tau), gradients


def by_forward_mode(vit: VisionTransformer, monkeypatch: pytest.MonkeyPatch) -> LinearisedFeatures:
    with monkeypatch.context() as patch:
        patch.setattr(dual_block, "write_blocks_out", lambda vit: False)
        return LinearisedFeatures(vit, "fp32", CPU, class_token=True)


def test_it_finds_what_forward_mode_finds(
    make: Callable[[], VisionTransformer], monkeypatch: pytest.MonkeyPatch
) -> None:
    written, plain = LinearisedFeatures(make(), "fp32", CPU, class_token=True), by_forward_mode(make(), monkeypatch)
    assert written.compilable and all(isinstance(block, DualBlock) for block in written.vit.blocks)
    assert not any(isinstance(block, DualBlock) for block in plain.vit.blocks)
    torch.testing.assert_close(found(written), found(plain), rtol=1e-10, atol=1e-12)


def test_its_weights_have_the_names_of_the_block_and_without_dual_numbers_it_is_the_block() -> None:
    vit, written = make_tiny_vit(), make_tiny_vit()
    assert write_blocks_out(written)
    assert written.state_dict().keys() == vit.state_dict().keys()
    assert torch.equal(written(images()), vit(images()))
    with pytest.raises(AssertionError, match="masks"):
        written.blocks[0](torch.zeros(1, 5, 8, dtype=torch.float64), attn_mask=torch.ones(5, 5, dtype=torch.bool))


@pytest.mark.parametrize(
    "options",
    [
        {"init_values": 0.1},
        {"qk_norm": True},
        {"act_layer": nn.SiLU},
        {"drop_path_rate": 0.1},
        {"proj_drop_rate": 0.1},
        {"scale_mlp_norm": True},
        {"norm_layer": partial(nn.LayerNorm, bias=False)},
    ],
    ids=lambda options: next(iter(options)),
)
def test_forward_mode_is_left_what_is_not_written_out(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> VisionTransformer:
        vit = make_tiny_vit(**options)
        write_out(vit)
        return vit

    model = LinearisedFeatures(made(), "fp32", CPU, class_token=True)
    assert not model.compilable and not isinstance(model.vit.blocks[-1], DualBlock)
    expected = by_forward_mode(made(), monkeypatch)
    torch.testing.assert_close(model.features(images(), vector(model)), expected.features(images(), vector(model)))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is compiled in a test, by a backend that writes no code; torch's settings are put back."""
    graphs: list[str] = []
    compile_function, before = torch.compile, torch._dynamo.config.suppress_errors

    def noting(graph: Any, inputs: Any) -> Any:
        graphs.append(str(graph.graph))
        return graph.forward

    monkeypatch.setattr(torch, "compile", lambda function, **options: compile_function(function, backend=noting))
    yield graphs
    torch._dynamo.config.suppress_errors = before
    torch.compiler.set_stance("default")
    torch._dynamo.reset()


def test_compiled_it_finds_the_same(make: Callable[[], VisionTransformer], compiled: list[str]) -> None:
    plain, model = (LinearisedFeatures(make(), "fp32", CPU, class_token=True) for _ in range(2))
    expected = found(plain)
    compile_blocks(model.vit)
    found(model)
    assert compiled == []  # outside of `as_compiled` it runs as it is
    with as_compiled(model.vit, full_batch=True):
        values = found(model)
    assert compiled and all("gelu_backward" in graph for graph in compiled)
    torch.testing.assert_close(values, expected, rtol=1e-10, atol=1e-12)
