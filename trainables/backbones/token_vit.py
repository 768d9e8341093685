"""A ViT open at its tokens: for methods that insert tokens, prepend to keys and values, or mask attention.

It shares its modules, and so its trained weights, with the given model. Notation: b images, n tokens, d width, m added
rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from trainables.backbones.attention import attend, is_plain
from trainables.backbones.few_tokens import FewTokensAttention
from trainables.errors import InputError

ALL_TOKENS = slice(None)
Prefix = tuple[Tensor, Tensor]  # rows of keys and of values: (b, m, d) each, or (m, d) for all images


class TokenViT(nn.Module):
    """The stages of a timm `VisionTransformer`, one by one and together.

    The ViT is loaded with `tokens="all"` and in eval mode; it is not copied.

    Raises:
        InputError: If `reason_closed` gives a reason.
    """

    def __init__(self, vit: VisionTransformer) -> None:
        super().__init__()
        problem = reason_closed(vit)
        if problem:
            raise InputError(f"the backbone cannot be opened at its tokens: {problem}")
        self.vit = vit

    @property
    def depth(self) -> int:
        """Number of blocks of the ViT."""
        return len(self.vit.blocks)

    def embed(self, images: Tensor) -> Tensor:
        """Return tokens with positions, the class token first: `(b, c, h, w)` to `(b, n, d)`."""
        vit = self.vit
        return vit.norm_pre(vit.patch_drop(vit._pos_embed(vit.patch_embed(images))))

    def block(
        self,
        k: int,
        tokens: Tensor,
        *,
        prefix: Prefix | None = None,
        mask: Tensor | None = None,
        read: slice = ALL_TOKENS,
    ) -> Tensor:
        """Return the output of block k (0-based) for its input tokens: `(b, n, d)` to `(b, n, d)`.

        `prefix` are rows prepended to keys and values, after projection. `mask` says (bool) where a token (row) may
        attend to a token (column): `(n, n)` or `(b, n, n)`. Every token may attend to the prefix unless the mask has
        columns for it, `(n, m + n)` or `(b, n, m + n)`. The output of a token with no key is undefined. Only the output
        of the tokens `read` is computed and returned; the others give keys and values alone.
        """
        queries, keys, values = self.project(k, tokens)
        if prefix is not None:
            keys, values = (
                torch.cat([_of_each(rows, len(tokens)), own], 1)
                for rows, own in zip(prefix, (keys, values), strict=True)
            )
            added = keys.shape[1] - tokens.shape[1]
            if mask is not None and mask.shape[-1] == tokens.shape[1]:
                mask = torch.cat([mask.new_ones(*mask.shape[:-1], added), mask], -1)
        mask = None if mask is None else mask[..., read, :]
        return self.complete(k, tokens[:, read], queries[:, read], keys, values, mask)

    def project(self, k: int, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return block k's queries, keys and values of its input tokens, `(b, n, d)` each, not split in heads."""
        block = self.vit.blocks[k]
        queries, keys, values = block.attn.qkv(block.norm1(tokens)).chunk(3, -1)
        return queries, keys, values

    def complete(
        self, k: int, tokens: Tensor, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """Return block k's output, residuals included, for input tokens `(b, n, d)` and their queries from `project`.

        `keys` and `values` are `(b, m, d)`, or `(m, d)` for all images. The bool mask says where a query may attend to
        a key: `(n, m)` or `(b, n, m)`.
        """
        block = self.vit.blocks[k]
        attn = block.attn
        q, keys, values = (_split(_of_each(rows, len(tokens)), attn.num_heads) for rows in (queries, keys, values))
        mask = mask[:, None] if mask is not None and mask.ndim == 3 else mask  # one for all heads
        out = attend(q, keys, values, mask, fused=getattr(attn, "fused_attn", False))
        tokens = tokens + block.ls1(attn.proj(out.transpose(1, 2).flatten(2)))
        return tokens + block.ls2(block.mlp(block.norm2(tokens)))

    def finish(self, tokens: Tensor) -> Tensor:
        """Apply the final norm: `(b, n, d)` to `(b, n, d)`."""
        return self.vit.norm(tokens)

    def forward(
        self,
        images: Tensor,
        *,
        insert: Tensor | None = None,
        prefixes: Mapping[int, Prefix] | None = None,
        mask: Tensor | None = None,
        read: slice = ALL_TOKENS,
    ) -> Tensor:
        """Return the tokens of images `(b, c, h, w)` after the final norm, `(b, n, d)`.

        `insert` are tokens put after the class token, `(b, m, d)`, or `(m, d)` for all images; n counts them. They get
        no position here. `prefixes` has the prefix of each block by its number; see `block` for it, `mask` and `read`,
        which is that of the last block. Without extras the tokens are those of the model's own `forward_features`.
        """
        tokens = self.embed(images)
        if insert is not None:
            tokens = torch.cat([tokens[:, :1], _of_each(insert, len(tokens)), tokens[:, 1:]], 1)
        for k in range(self.depth):
            wanted = read if k == self.depth - 1 else ALL_TOKENS
            tokens = self.block(k, tokens, prefix=(prefixes or {}).get(k), mask=mask, read=wanted)
        return self.finish(tokens)


def _of_each(rows: Tensor, images: int) -> Tensor:
    """Expand rows `(m, d)`, or `(b, m, d)` as they are, to `(b, m, d)`."""
    return rows.expand(images, *rows.shape[-2:])


def _split(rows: Tensor, heads: int) -> Tensor:
    """Split rows in heads: `(b, n, d)` to `(b, heads, n, d / heads)`."""
    return rows.unflatten(-1, (heads, -1)).transpose(1, 2)


def reason_closed(vit: nn.Module) -> str | None:
    """Return why a network cannot be opened at its tokens, in a few words; None if it can."""
    if not isinstance(vit, VisionTransformer):
        return f"it is a {type(vit).__name__}, needs a timm VisionTransformer"
    if vit.cls_token is None:
        return "it has no class token"
    if vit.global_pool != "token" or type(vit) is not VisionTransformer:
        return "its features are not those of the class token alone"
    for k, block in enumerate(vit.blocks):
        if type(block) is not Block:
            return f"block {k} is a {type(block).__name__}, needs timm's Block (load it with tokens='all')"
        if not isinstance(block.attn, FewTokensAttention) and not is_plain(block.attn):
            return f"the attention of block {k} normalises, gates or drops, or is not timm's Attention"
    return None
