"""The last block of a ViT whose class token alone is read: computations of other tokens are skipped."""

from __future__ import annotations

from timm.layers import Attention
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from trainables.backbones.attention import attend


class ClassTokenBlock(nn.Module):
    """A timm `Block` that returns its class token: `(b, n, d)` to `(b, 1, d)`.

    The other tokens give keys and values alone. Their attention outputs, projection and MLP reach no feature and are
    skipped. Values and gradients are those of the whole block, up to the order of floating-point sums. The block's
    modules are used under their names, not copied.
    """

    norm1: nn.Module
    attn: Attention
    ls1: nn.Module
    drop_path1: nn.Module
    norm2: nn.Module
    mlp: nn.Module
    ls2: nn.Module
    drop_path2: nn.Module

    def __init__(self, block: Block) -> None:
        super().__init__()
        for name, module in block.named_children():
            self.add_module(name, module)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """Return the class token of timm's `Block`; the mask is bool or additive, over all tokens."""
        assert not is_causal, "the class token comes first, and would attend to nothing but itself"
        x = x[:, :1] + self.drop_path1(self.ls1(self._attend(self.norm1(x), attn_mask)))
        return x + self.drop_path2(self.ls2(self.mlp(self.norm2(x))))

    def _attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        attn = self.attn
        b, n, _ = x.shape
        q, k, v = attn.qkv(x).reshape(b, n, 3, attn.num_heads, attn.head_dim).permute(2, 0, 3, 1, 4).unbind(0)
        mask = None if mask is None else mask[..., :1, :]
        out = attend(attn.q_norm(q[:, :, :1]), attn.k_norm(k), v, mask, fused=attn.fused_attn)  # [b, heads, 1, d/heads]
        return attn.proj_drop(attn.proj(attn.norm(out.reshape(b, 1, attn.attn_dim))))


def read_class_token_only(model: VisionTransformer) -> None:
    """Replace the last block by a `ClassTokenBlock`, unless the model pools otherwise or has another kind of block."""
    block = model.blocks[-1]
    if (
        type(model) is VisionTransformer  # a distilled one reads a second token, too
        and model.global_pool == "token"
        and type(block) is Block
        and type(block.attn) is Attention
        and block.attn.gate is None
        and block.attn.attn_drop.p == 0.0
    ):
        model.blocks[-1] = ClassTokenBlock(block)
