"""Backbones: their weights, what they leave out, attention as explicit products, and recorded layers."""

from __future__ import annotations

import copy
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import timm
import torch
from safetensors.torch import load_file, save_file
from timm.layers import Attention
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones import (
    EMBEDDED,
    Backbone,
    InputSpec,
    Shape,
    few_tokens,
    glyph_vit,
    loading,
    offered,
    pretrain_glyph_vit,
    timm_names,
    tuned_layers,
)
from trainables.backbones.attention import is_plain, write_out, written_out
from trainables.backbones.class_token import ClassTokenBlock, read_class_token_only
from trainables.backbones.few_tokens import FewTokensAttention, attend_among_few
from trainables.backbones.recording import recorded
from trainables.errors import InputError, NotFetchedError
from trainables.randomness import make_generator


def assert_same_network(changed: nn.Module, whole: nn.Module) -> None:
    """Names, features and gradients of two tiny ViTs are the same up to the order of sums."""
    assert list(changed.state_dict()) == list(whole.state_dict())
    images = torch.randn(3, 1, 8, 8, generator=make_generator(0, "x"), dtype=torch.float64)
    wanted, got = whole(images), changed(images)
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-12)
    for features in (wanted, got):
        features.sin().sum().backward()
    for a, b in zip(changed.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-10, atol=1e-12)


def test_embedded_weights_are_small_and_complete() -> None:
    model = Backbone().load()
    count = sum(p.numel() for p in model.parameters())
    assert 200_000 <= count <= 500_000
    assert glyph_vit.WEIGHTS.stat().st_size <= 2 * 2**20
    assert not model.training and model(torch.zeros(1, 1, 32, 32)).shape == (1, 64)


@pytest.mark.parametrize("name", [EMBEDDED, "vit_tiny_patch16_224"])
def test_its_shape_is_known_without_its_weights(name: str) -> None:
    vit = glyph_vit.build() if name == EMBEDDED else timm.create_model(name, num_classes=0)
    parameters = sum(each.numel() for each in vit.parameters())
    assert Backbone(name).shape == Shape(vit.embed_dim, len(vit.blocks), parameters, None)


def test_a_shape_says_why_a_vit_cannot_be_opened_at_its_tokens() -> None:
    assert Backbone("vit_base_patch16_siglip_224").shape.closed == "it has no class token"
    with pytest.raises(InputError, match="is a ResNet, needs a VisionTransformer or Eva of timm"):
        _ = Backbone("resnet18").shape


def test_its_input_is_known_without_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = InputSpec(3, 384, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert Backbone("deit_base_patch16_384").input == wanted
    monkeypatch.setattr(timm_names, "installed", lambda kind: ["vit_huge_own"] if kind == "backbone" else [])
    said = "unknown backbone 'vit_huge'; allowed: glyph_vit, vit_huge_own, .* brings; did you mean 'vit_huge_own'"
    with pytest.raises(InputError, match=said):
        _ = Backbone("vit_huge").input


def test_the_backbones_on_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = {"vit_here": ("here", 224), "vit_away": ("away", 32), "vit_unnamed": (None, 16)}
    configs["vit_tiny_patch16_224.away"] = ("away", 224)
    made = {name: SimpleNamespace(input_size=(3, size, size), hf_hub_id=hub) for name, (hub, size) in configs.items()}
    monkeypatch.setattr(offered.timm, "list_models", lambda **_: [*configs, "vit_unknown"])
    monkeypatch.setattr(offered.timm, "get_pretrained_cfg", made.get)
    fetched = {("here", "pytorch_model.bin"): "/cache/file"}
    monkeypatch.setattr(offered, "try_to_load_from_cache", lambda repository, file: fetched.get((repository, file)))
    embedded = offered.Offer(EMBEDDED, 1, 32, True, EMBEDDED, (32,))
    here, away = offered.Offer("vit_here", 3, 224, True), offered.Offer("vit_away", 3, 32, False)
    tried = offered.Offer("vit_tiny_patch16_224.away", 3, 224, False, "vit_tiny_patch16_224", (96, 224))
    assert list(offered.offers()) == [embedded, away, here, tried, offered.Offer("vit_unnamed", 3, 16, False)]
    assert list(offered.offers("_here")) == [here] and list(offered.offers("glyph")) == [embedded]


def test_weights_in_a_file_are_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offered, "try_to_load_from_cache", lambda repository, file: None)
    name = "vit_tiny_patch16_224"
    assert Backbone(name, tmp_path / "weights.safetensors").here and not Backbone(name).here and Backbone().here


def test_digest_is_of_the_values_not_the_file(tmp_path: Path) -> None:
    state = Backbone().load().state_dict()
    save_file(dict(reversed(state.items())), tmp_path / "same.safetensors")
    assert Backbone(EMBEDDED, tmp_path / "same.safetensors").digest == Backbone().digest
    state["pos_embed"] = state["pos_embed"] + 1
    save_file(state, tmp_path / "other.safetensors")
    assert Backbone(EMBEDDED, tmp_path / "other.safetensors").digest != Backbone().digest
    (tmp_path / "same.safetensors").write_bytes((tmp_path / "other.safetensors").read_bytes())
    assert Backbone(EMBEDDED, tmp_path / "same.safetensors").digest != Backbone().digest  # of the same length


def test_wrong_weights_are_named(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.safetensors"
    with pytest.raises(InputError, match=r"wrong.safetensors: there is no such file$"):
        Backbone(EMBEDDED, wrong).load()
    wrong.write_bytes(glyph_vit.WEIGHTS.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"wrong.safetensors: cannot be read as safetensors"):
        Backbone(EMBEDDED, wrong).load()
    save_file({"a": torch.zeros(1)}, wrong)
    with pytest.raises(InputError, match="do not fit the backbone: 'a' is not a part of it"):
        Backbone(EMBEDDED, wrong).load()
    state = Backbone().load().state_dict()
    state["blocks.0.mlp.fc1.bias"] = torch.full((256,), torch.nan)
    save_file(state, wrong)
    with pytest.raises(InputError, match="'blocks.0.mlp.fc1.bias' holds values that are not finite"):
        Backbone(EMBEDDED, wrong).load()
    save_file(state | {"blocks.0.mlp.fc1.bias": torch.zeros(3)}, wrong)
    with pytest.raises(InputError, match=r"'blocks.0.mlp.fc1.bias' is \(3,\), must be \(256,\)"):
        Backbone(EMBEDDED, wrong).load()
    with pytest.raises(InputError, match="'resnet10t' is a ResNet, needs a VisionTransformer or Eva of timm"):
        Backbone("resnet10t").load()  # said before anything is fetched
    with pytest.raises(InputError, match="unknown backbone 'vit_huge'"):
        Backbone("vit_huge").load()


def test_class_token_block_equals_the_whole_block() -> None:
    whole = make_tiny_vit(qk_norm=True, init_values=0.5)
    short = copy.deepcopy(whole)
    read_class_token_only(short)
    assert isinstance(short.blocks[-1], ClassTokenBlock)
    assert_same_network(short, whole)


@pytest.mark.parametrize(
    ("few", "options", "kind"),
    [(5, {}, FewTokensAttention), (4, {}, Attention), (32, {"qk_norm": True}, Attention)],
)
def test_attention_that_normalises_or_has_many_tokens_stays(
    few: int, options: dict[str, Any], kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(few_tokens, "FEW_TOKENS", few)
    model = make_tiny_vit(**options)  # 5 tokens
    attend_among_few(model)
    assert all(type(block.attn) is kind for block in model.blocks)


NORMALISED = {"norm_layer": nn.LayerNorm}


@pytest.mark.parametrize(
    "more",
    [
        {"qk_norm": True, **NORMALISED},
        {"scale_norm": True, **NORMALISED},
        {"gated": True},
        {"attn_drop": 0.1},
        {"proj_drop": 0.1},
    ],
    ids=lambda more: next(iter(more)),
)
def test_attention_that_normalises_gates_or_drops_is_not_plain(more: dict[str, Any]) -> None:
    assert is_plain(Attention(8, num_heads=2)) and not is_plain(Attention(8, num_heads=2, **more))


def test_a_gated_last_block_stays_whole() -> None:
    model = make_tiny_vit()
    model.blocks[-1].attn = Attention(8, num_heads=2, gated=True)
    read_class_token_only(model)
    assert type(model.blocks[-1]) is Block


def test_a_network_without_tuned_layers_is_refused() -> None:
    with pytest.raises(InputError, match="Linear has no layer named attn.qkv, attn.proj, mlp.fc1, "):
        tuned_layers(nn.Linear(2, 2))


@pytest.mark.parametrize("options", [{"global_pool": "avg"}, {"global_pool": "map"}, {"attn_drop_rate": 0.1}])
def test_a_model_that_pools_or_drops_its_tokens_keeps_its_last_block(options: dict[str, Any]) -> None:
    model = make_tiny_vit(**options)
    read_class_token_only(model)
    assert type(model.blocks[-1]) is Block


def test_a_timm_vit_takes_a_local_file(tmp_path: Path) -> None:
    whole = timm.create_model("vit_tiny_patch16_224", num_classes=10)  # as on the hub, with its classifier
    save_file(whole.state_dict(), tmp_path / "tiny.safetensors")
    whole.reset_classifier(0)
    before = torch.get_rng_state()
    loaded = Backbone("vit_tiny_patch16_224", tmp_path / "tiny.safetensors").load()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), whole.parameters(), strict=True))


VARIANTS = ["whole", "class token", "few tokens", "class token and few tokens"]


def plain_variant(name: str) -> nn.Module:
    """A tiny ViT whose attention is written out, in one of the forms that `Backbone.load` can give it."""
    model = make_tiny_vit()
    if "class token" in name:
        read_class_token_only(model)
    write_out(model)
    if "few tokens" in name:
        attend_among_few(model)
    return model


@pytest.mark.parametrize("name", VARIANTS)
def test_written_out_attention_equals_the_fused_kernel(name: str) -> None:
    assert_same_network(plain_variant(name), make_tiny_vit())


@pytest.mark.parametrize("name", VARIANTS)
def test_written_out_attention_has_forward_derivatives_of_all_parameters(name: str, images: Tensor) -> None:
    model = plain_variant(name)
    parameters = {key: value.detach() for key, value in model.named_parameters()}
    generator = make_generator(0, "tangents")
    tangents = {
        key: torch.randn(value.shape, generator=generator, dtype=value.dtype) for key, value in parameters.items()
    }

    def features(given: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(model, given, (images,))

    _, got = torch.func.jvp(features, (parameters,), (tangents,))
    step = 1e-6
    ahead, behind = (
        features({key: value + sign * step * tangents[key] for key, value in parameters.items()}) for sign in (1, -1)
    )
    torch.testing.assert_close(got, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("kind", ["bool", "additive", "per image"])
def test_written_out_attention_knows_masks(name: str, kind: str, images: Tensor) -> None:
    mask = torch.arange(5) != (torch.arange(5)[:, None] + 2) % 5  # token i does not attend to token i + 2
    if kind == "additive":
        mask = torch.zeros(5, 5, dtype=torch.float64).masked_fill(~mask, -torch.inf)
    if kind == "per image":
        mask = torch.stack([mask, torch.ones_like(mask)])[torch.arange(len(images)) % 2, None]
    wanted = make_tiny_vit().forward_features(images, attn_mask=mask)
    got = plain_variant(name).forward_features(images, attn_mask=mask)
    torch.testing.assert_close(got, wanted[:, : got.shape[1]], rtol=1e-10, atol=1e-12)
    assert not torch.allclose(wanted, make_tiny_vit().forward_features(images))


def test_a_backbone_is_loaded_with_all_tokens_or_plain_attention() -> None:
    images = torch.randn(2, 1, 32, 32, generator=make_generator(0, "x"))
    usual = Backbone().load()
    assert isinstance(usual.blocks[-1], ClassTokenBlock) and usual.forward_features(images).shape == (2, 1, 64)
    whole = Backbone().load(tokens="all")
    assert whole.forward_features(images).shape == (2, 17, 64)
    torch.testing.assert_close(whole(images), usual(images), rtol=1e-4, atol=1e-5)
    plain = Backbone().load(attention="plain")
    assert isinstance(plain.blocks[-1], ClassTokenBlock) and not plain.blocks[-1].attn.fused_attn
    assert usual.blocks[-1].attn.fused_attn and isinstance(usual.blocks[0].attn, FewTokensAttention)
    assert type(Backbone().load("meta").blocks[0].attn) is Attention  # the fused kernel of a GPU is faster
    _, tangent = torch.func.jvp(plain, (images,), (torch.ones_like(images),))
    assert tangent.shape == (2, 64) and tangent.any()
    with pytest.raises(NotImplementedError, match="forward AD"):
        torch.func.jvp(usual, (images,), (torch.ones_like(images),))


def test_layers_are_recorded_while_the_block_runs_and_left_as_they_were(images: Tensor) -> None:
    model = make_tiny_vit().requires_grad_(False)
    read_class_token_only(model)
    layers = {name: model.get_submodule(name) for name in ("blocks.0.attn.qkv", "blocks.1.attn.qkv", "blocks.1.norm1")}
    with recorded(layers) as activations:
        model(images)
        assert activations.keys() == layers.keys()
        read, returned = activations["blocks.1.attn.qkv"]
        torch.testing.assert_close(read, activations["blocks.1.norm1"][1], rtol=0, atol=0)
        torch.testing.assert_close(layers["blocks.1.attn.qkv"](read), returned)
        assert returned.requires_grad and not read.requires_grad
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert not any(layer._forward_hooks for layer in layers.values())


@pytest.mark.parametrize("trained", [False, True])
def test_layers_are_left_as_they_were_after_an_error(trained: bool) -> None:
    layer = make_tiny_vit().requires_grad_(trained).get_submodule("blocks.0.attn.qkv")
    with pytest.raises(RuntimeError), recorded({"qkv": layer}):
        raise RuntimeError
    assert not layer._forward_hooks and layer.weight.requires_grad is trained


def test_attention_is_written_out_inside_the_block_alone() -> None:
    model = make_tiny_vit()
    write_out(model.blocks[0])
    with written_out(model):
        assert [block.attn.fused_attn for block in model.blocks] == [False, False]
    assert [block.attn.fused_attn for block in model.blocks] == [False, True]


@pytest.mark.parametrize(
    ("listens", "proxies", "offline"),
    [(True, {}, False), (False, {}, True), (False, {"https": "http://proxy"}, False)],  # behind a proxy it is unknown
)
def test_where_no_hub_answers_what_was_fetched_before_is_taken_at_once(
    listens: bool, proxies: dict[str, str], offline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def create_model(name: str, classes: int, pretrained: bool) -> Any:
        asked.append(huggingface_hub.constants.HF_HUB_OFFLINE)
        raise OSError("no weights")

    monkeypatch.setattr(loading, "skeleton", lambda name: None)
    monkeypatch.setattr(loading, "created", create_model)
    monkeypatch.setattr(loading, "getproxies", lambda: proxies)
    with socket.create_server(("127.0.0.1", 0)) as server:
        if not listens:
            server.close()
            server = socket.socket()
            server.bind(("127.0.0.1", 0))  # taken, without a listener
        with server:
            monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
            with pytest.raises(NotFetchedError, match="no weights"):
                Backbone("vit_tiny_patch16_224").load()
    assert asked == [offline] and not huggingface_hub.constants.HF_HUB_OFFLINE
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)  # as the user wishes
    with pytest.raises(NotFetchedError):
        Backbone("vit_tiny_patch16_224").load()
    assert huggingface_hub.constants.HF_HUB_OFFLINE


def test_where_no_hub_answers_and_nothing_was_fetched_before_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_answers", lambda address: False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        NotFetchedError, match=r"\(the hub does not answer, and no earlier download lies here\); give a"
    ):
        Backbone("vit_tiny_patch16_224.augreg_in21k").load()


def test_two_steps_are_repeatable_and_have_the_form_of_the_embedded_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / f"{number}.safetensors" for number in range(2)]
    for file in files:
        monkeypatch.setattr("sys.argv", ["pretrain", str(file), "--steps", "2"])
        pretrain_glyph_vit.main()
    assert files[0].read_bytes() == files[1].read_bytes()
    made, embedded = load_file(files[0]), load_file(glyph_vit.WEIGHTS)
    assert {name: value.shape for name, value in made.items()} == {name: v.shape for name, v in embedded.items()}
    assert Backbone(weights=files[0]).digest != Backbone().digest


def test_the_learning_rate_warms_up_and_falls_to_nothing() -> None:
    rates = [pretrain_glyph_vit.learning_rate(step, 1000) for step in (0, 149, 299, 300, 650, 1000)]
    assert rates == pytest.approx([1 / 300, 0.5, 1.0, 1.0, 0.5, 0.0], abs=1e-9)
