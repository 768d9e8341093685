"""Attention between few tokens on a CPU: explicit products over one copy of queries, keys and values."""

from __future__ import annotations

import torch
from timm.layers import Attention
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from trainables.backbones.attention import is_plain, masked

# Up to here explicit products beat the fused kernel; at 17 tokens they take a half to a third of its time.
FEW_TOKENS = 32


class FewTokensAttention(nn.Module):
    """A timm `Attention` over few tokens: `(b, n, d)` to `(b, n, d)`.

    timm's own products copy queries, keys and values one by one, forward and backward. The projections of the given
    attention are used under their names, not copied.
    """

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.qkv, self.proj = attention.qkv, attention.proj
        self.num_heads, self.head_dim, self.scale = attention.num_heads, attention.head_dim, attention.scale

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """Return the output of `timm.layers.Attention`; a mask is bool or additive, broadcast to `(b, heads, n, n)`."""
        assert not is_causal
        b, n, _ = x.shape
        heads, width = self.num_heads, self.head_dim
        parts = self.qkv(x).reshape(b, n, 3, heads, width).permute(2, 0, 3, 1, 4)
        q, k, v = parts.reshape(3, b * heads, n, width).unbind()
        scores = torch.baddbmm(q.new_empty(()), q, k.mT, beta=0, alpha=self.scale)  # [b * heads, n, n]
        if attn_mask is not None:
            scores = masked(scores.unflatten(0, (b, heads)), attn_mask).flatten(0, 1)
        out = torch.bmm(scores.softmax(-1), v).reshape(b, heads, n, width)
        return self.proj(out.transpose(1, 2).reshape(b, n, heads * width))


def attend_among_few(model: VisionTransformer) -> None:
    """Replace every plain attention of a ViT that reads few tokens by a `FewTokensAttention`; see `is_plain`."""
    if model.pos_embed is None or model.pos_embed.shape[1] > FEW_TOKENS:
        return
    for block in model.blocks:
        if isinstance(block, Block) and is_plain(block.attn):
            block.attn = FewTokensAttention(block.attn)
