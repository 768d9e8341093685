"""A ViT opened at its tokens, in float64: without extras it is the model; extras equal the sums by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones.attention import write_out
from trainables.backbones.class_token import read_class_token_only
from trainables.backbones.few_tokens import attend_among_few
from trainables.backbones.token_vit import TokenViT
from trainables.errors import InputError
from trainables.randomness import make_generator

EXACT = {"rtol": 1e-10, "atol": 1e-12}


def random(*shape: int, label: str = "rows") -> Tensor:
    return torch.randn(*shape, generator=make_generator(0, label), dtype=torch.float64)


@pytest.fixture(params=["fused", "plain", "few tokens"])
def vit(request: pytest.FixtureRequest) -> TokenViT:
    model = make_tiny_vit(init_values=0.5)
    if request.param == "plain":
        write_out(model)
    if request.param == "few tokens":
        attend_among_few(model)
    return TokenViT(model)


def test_without_extras_it_is_the_model(vit: TokenViT, images: Tensor) -> None:
    torch.testing.assert_close(vit(images), make_tiny_vit(init_values=0.5).forward_features(images), **EXACT)
    torch.testing.assert_close(vit(images)[:, 0], vit.vit(images), **EXACT)
    tokens = vit.embed(images)
    assert tokens.shape == (12, 5, 8) and vit.depth == 2
    for k, block in enumerate(vit.vit.blocks):
        torch.testing.assert_close(vit.block(k, tokens), block(tokens), **EXACT)


def test_all_parameters_have_gradients_and_forward_derivatives(images: Tensor) -> None:
    model = make_tiny_vit()
    write_out(model)
    vit = TokenViT(model)
    vit(images).sin().sum().backward()
    assert all(parameter.grad is not None for parameter in vit.parameters())
    prefix = (random(3, 8), random(3, 8))
    _, got = torch.func.jvp(lambda keys: vit(images, prefixes={1: (keys, prefix[1])}), prefix[:1], (random(3, 8),))
    assert got.shape == (12, 5, 8) and got.any()


@pytest.mark.parametrize("each", [False, True], ids=["one mask", "a mask per image"])
def test_a_masked_token_influences_nothing(vit: TokenViT, images: Tensor, each: bool) -> None:
    tokens = vit.embed(images)
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[[0, 1, 2, 4], 3] = False
    if each:
        mask = mask.expand(12, 5, 5).clone()
        mask[0] = True  # the first image's tokens see all
    changed = tokens.clone()
    changed[:, 3] += random(8)  # not the same for every channel, which a norm would undo
    got, same = (vit.block(1, given, mask=mask) for given in (changed, tokens))
    others = [0, 1, 2, 4]
    torch.testing.assert_close(got[1:, others], same[1:, others], **EXACT)
    unmasked = vit.block(1, changed)
    assert torch.allclose(got[0, others], unmasked[0, others]) == each
    assert not torch.allclose(unmasked[:, others], vit.block(1, tokens)[:, others])


def test_a_prefix_is_concatenated_to_keys_and_values(vit: TokenViT, images: Tensor) -> None:
    tokens, keys, values = vit.embed(images), random(12, 2, 8, label="k"), random(12, 2, 8, label="v")
    block: Any = vit.vit.blocks[0]
    q, k, v = block.attn.qkv(block.norm1(tokens)).reshape(12, 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
    k, v = (
        torch.cat([rows.reshape(12, 2, 2, 4).transpose(1, 2), own], 2) for rows, own in ((keys, k), (values, v))
    )  # [b, heads, 2 + 5, d / heads]
    out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(12, 5, 8)
    wanted = tokens + block.ls1(block.attn.proj(out))
    wanted = wanted + block.ls2(block.mlp(block.norm2(wanted)))
    torch.testing.assert_close(vit.block(0, tokens, prefix=(keys, values)), wanted, **EXACT)
    rest = vit.finish(vit.block(1, wanted))
    torch.testing.assert_close(vit(images, prefixes={0: (keys, values)}), rest, **EXACT)


def test_a_prefix_is_seen_by_all_unless_the_mask_says_otherwise(vit: TokenViT, images: Tensor) -> None:
    tokens, prefix = vit.embed(images), (random(2, 8, label="k"), random(2, 8, label="v"))  # the same for all images
    whole = vit.block(0, tokens, prefix=prefix)
    repeated = vit.block(0, tokens, prefix=(prefix[0].expand(12, 2, 8), prefix[1].expand(12, 2, 8)))
    torch.testing.assert_close(whole, repeated, **EXACT)
    allowed = torch.ones(5, 5, dtype=torch.bool)
    torch.testing.assert_close(vit.block(0, tokens, prefix=prefix, mask=allowed), whole, **EXACT)
    hidden = torch.cat([torch.zeros(5, 2, dtype=torch.bool), allowed], 1)
    hidden[4] = True  # the last token alone sees it
    got = vit.block(0, tokens, prefix=prefix, mask=hidden)
    torch.testing.assert_close(got[:, :4], vit.block(0, tokens)[:, :4], **EXACT)
    torch.testing.assert_close(got[:, 4], whole[:, 4], **EXACT)


@pytest.mark.parametrize("shape", [(5, 5), (12, 5, 5)], ids=["one mask", "a mask per image"])
def test_a_mask_without_columns_for_the_prefix_is_of_the_tokens_behind_it(
    vit: TokenViT, images: Tensor, shape: tuple[int, ...]
) -> None:
    tokens, prefix = vit.embed(images), (random(2, 8, label="k"), random(2, 8, label="v"))
    earlier = torch.ones(shape, dtype=torch.bool).tril()  # a token sees itself and those before it
    whole = torch.cat([earlier.new_ones(*shape[:-1], 2), earlier], -1)
    got, wanted = (vit.block(0, tokens, prefix=prefix, mask=mask) for mask in (earlier, whole))
    torch.testing.assert_close(got, wanted, **EXACT)


def test_attending_to_ones_own_keys_and_values_is_the_block(vit: TokenViT, images: Tensor) -> None:
    tokens = vit.embed(images)
    queries, keys, values = vit.project(1, tokens)
    assert keys.shape == values.shape == (12, 5, 8)
    torch.testing.assert_close(vit.complete(1, tokens, queries, keys, values), vit.block(1, tokens), **EXACT)
    torch.testing.assert_close(vit.block(1, tokens, prefix=(keys, values)), vit.block(1, tokens), **EXACT)


def test_an_extra_query_over_frozen_tokens_is_a_masked_token_of_the_whole(vit: TokenViT, images: Tensor) -> None:
    """The cheap form of a-la-carte prompts: images never see the prompt, and the prompt sees images and itself."""
    prompt = random(1, 8)
    image = torch.tensor([True] * 5)
    mask = torch.stack([torch.cat([image, torch.tensor([False])])] * 5 + [torch.ones(6, dtype=torch.bool)])
    whole, extra = torch.cat([vit.embed(images), prompt.expand(12, 1, 8)], 1), prompt.expand(12, 1, 8)
    frozen = vit.embed(images)
    for k in range(vit.depth):
        queries, *own = vit.project(k, extra)
        keys, values = (torch.cat(pair, 1) for pair in zip(vit.project(k, frozen)[1:], own, strict=True))
        extra = vit.complete(k, extra, queries, keys, values)
        whole, frozen = vit.block(k, whole, mask=mask), vit.block(k, frozen)
    torch.testing.assert_close(whole[:, 5:], extra, **EXACT)
    torch.testing.assert_close(whole[:, :5], frozen, **EXACT)
    query, (tokens, *_) = prompt.expand(12, 1, 8), vit.project(0, prompt.expand(12, 1, 8))
    absent = vit.complete(0, query, tokens, *vit.project(0, whole)[1:], mask=mask[4:5])
    present = vit.complete(0, query, tokens, *vit.project(0, whole[:, :5])[1:])
    torch.testing.assert_close(absent, present, **EXACT)


@pytest.mark.parametrize("shape", [(12, 2, 8), (2, 8)], ids=["of each image", "the same for all"])
def test_inserted_tokens_follow_the_class_token(vit: TokenViT, images: Tensor, shape: tuple[int, ...]) -> None:
    insert = random(*shape)
    tokens = vit.embed(images)
    tokens = torch.cat([tokens[:, :1], insert.expand(12, 2, 8), tokens[:, 1:]], 1)
    for block in vit.vit.blocks:
        tokens = block(tokens)
    torch.testing.assert_close(vit(images, insert=insert), vit.vit.norm(tokens), **EXACT)


def test_a_mask_reaches_every_block_of_the_forward_pass(vit: TokenViT, images: Tensor) -> None:
    mask = torch.ones(7, 7, dtype=torch.bool)
    mask[[0, *range(3, 7)], 1:3] = False  # no other token sees the two inserted ones
    got = vit(images, insert=random(2, 8), mask=mask)
    torch.testing.assert_close(got[:, [0, 3, 4, 5, 6]], vit(images), **EXACT)


@pytest.mark.parametrize("read", [slice(0, 1), slice(1, 3), slice(None)], ids=["class", "inserted", "all"])
def test_only_the_tokens_that_are_read_are_returned_and_they_are_the_same(
    vit: TokenViT, images: Tensor, read: slice
) -> None:
    mask = random(12, 7, 7, label="mask") > -1
    mask[:, :, 0] = True  # every token attends to one at least
    extras: Any = {"insert": random(2, 8), "prefixes": {1: (random(3, 8, label="k"), random(3, 8, label="v"))}}
    for given in ({}, {"mask": mask[0]}, {"mask": mask}):
        torch.testing.assert_close(vit(images, **extras, **given, read=read), vit(images, **extras, **given)[:, read])
    layers = []
    handles = [block.mlp.register_forward_hook(lambda _, x, y: layers.append(y.shape[1])) for block in vit.vit.blocks]
    vit(images, **extras, read=read)
    assert layers == [7, len(range(7)[read])]
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"qk_norm": True}, "the attention of block 0 normalises"),
        ({"attn_drop_rate": 0.1}, "the attention of block 0 normalises, gates or drops"),
        ({"class_token": False, "global_pool": "avg"}, "it has no class token"),
    ],
)
def test_a_vit_that_cannot_be_followed_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=f"cannot be opened at its tokens: {reason}"):
        TokenViT(make_tiny_vit(**options))


def test_other_networks_and_blocks_are_refused() -> None:
    short = make_tiny_vit()
    read_class_token_only(short)
    with pytest.raises(InputError, match=r"block 1 is a ClassTokenBlock, .* \(load it with tokens='all'\)"):
        TokenViT(short)
    with pytest.raises(InputError, match="it is a Linear, needs a timm VisionTransformer"):
        TokenViT(nn.Linear(1, 1))  # type: ignore[arg-type]
