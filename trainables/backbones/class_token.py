"""The last block of a ViT that is read at its class token alone: what no other token needs is not computed."""

from __future__ import annotations

from timm.layers import Attention
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from trainables.backbones.attention import attend


class ClassTokenBlock(nn.Module):
    """A timm `Block` that returns its class token: `(b, n, d)` to `(b, 1, d)`.

    The other tokens still give keys and values; their queries' outputs, projection and MLP are left out. They reach
    no feature, so values and gradients are those of the whole block up to the order of floating-point sums.

    Args:
        block: The block whose modules are taken over under their names; it is not copied.
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
        """Compute the class token of what timm's `Block` does; a mask is bool or additive, of all tokens."""
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
    """Put a `ClassTokenBlock` in place of the last block, where the model is read at its class token.

    A model that pools differently, or whose block is of another kind, stays as it is.
    """
    block = model.blocks[-1]
    if (
        model.global_pool == "token"
        and model.attn_pool is None
        and type(block) is Block
        and type(block.attn) is Attention
        and block.attn.gate is None
        and block.attn.attn_drop.p == 0.0
    ):
        model.blocks[-1] = ClassTokenBlock(block)
