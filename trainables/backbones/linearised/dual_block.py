"""A plain block of a ViT in dual numbers: its output, and the derivative of it along a task vector.

torch's forward mode takes every operation apart into several, and `torch.compile` cannot follow it. Written out, the
value keeps its fused attention, the derivative has no graph, and both can be compiled.

Notation: x is a value and dx its derivative, W a weight and dW its part of the task vector. For a linear layer, the
normalisation n of a layer norm with weight g, attention with scores S and P = softmax(S), and GELU:

    dy = dx W^T + x dW^T + db
    dn = (c - n mean(n c)) / sqrt(var + eps), c = dx - mean(dx);   dy = dn g + n dg + db
    dS = (dq k^T + q dk^T) / sqrt(w),  dP = P (dS - sum(P dS));   dy = dP v + P dv
    dy = GELU'(x) dx
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
import torch.nn.functional as F
from timm.layers import Mlp
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from trainables.backbones.attention import is_plain
from trainables.backbones.class_token import ClassTokenBlock
from trainables.backbones.few_tokens import FewTokensAttention

Dual = tuple[Tensor, Tensor]
Parts = Mapping[str, Dual]  # a block's weights by their names in it


def attention(x: Dual, parts: Parts, heads: int, read: int) -> Dual:
    """Return the projected attention of the first `read` tokens, `(b, read, d)`, of tokens `(b, n, d)`."""
    qkv = [_split(each, heads) for each in linear(x, parts, "attn.qkv")]
    (q, k, v), (dq, dk, dv) = (each.unbind() for each in qkv)  # [b, heads, n, w] each
    q, dq = q[:, :, :read], dq[:, :, :read]
    value = F.scaled_dot_product_attention(q, k, v)
    q, k, v, scale = q.detach(), k.detach(), v.detach(), q.shape[-1] ** -0.5
    p = (scale * q @ k.mT).softmax(-1)
    ds = scale * dq @ k.mT + scale * q @ dk.mT
    dp = p * (ds - (p * ds).sum(-1, keepdim=True))
    out = value, dp @ v + p @ dv
    return linear(_each(out, lambda rows: rows.transpose(1, 2).flatten(2)), parts, "attn.proj")


def linear(x: Dual, parts: Parts, name: str) -> Dual:
    """Apply a linear layer."""
    (weight, dweight), (bias, dbias) = parts[f"{name}.weight"], parts.get(f"{name}.bias", (None, None))
    derivative = F.linear(x[1], weight.detach()) + F.linear(x[0].detach(), dweight, dbias)
    return F.linear(x[0], weight, bias), derivative


def layer_norm(x: Dual, parts: Parts, name: str, eps: float) -> Dual:
    """Apply a layer norm."""
    (weight, dweight), (bias, dbias) = parts[f"{name}.weight"], parts[f"{name}.bias"]
    value, (still, dx) = F.layer_norm(x[0], weight.shape, weight, bias, eps), (x[0].detach(), x[1])
    var, mean = torch.var_mean(still, -1, correction=0, keepdim=True)
    inverse = (var + eps).rsqrt()
    n, c = (still - mean) * inverse, dx - dx.mean(-1, keepdim=True)
    dn = inverse * (c - n * (n * c).mean(-1, keepdim=True))
    return value, dn * weight.detach() + n * dweight + dbias


def gelu(x: Dual) -> Dual:
    """Apply GELU."""
    return F.gelu(x[0]), torch.ops.aten.gelu_backward(x[1], x[0].detach())


def block(x: Dual, parts: Parts, heads: int, read: int, eps: tuple[float, float]) -> Dual:
    """Apply a block to tokens `(b, n, d)`; return the first `read` tokens."""
    attended = attention(layer_norm(x, parts, "norm1", eps[0]), parts, heads, read)
    x = _sum(_each(x, lambda tokens: tokens[:, :read]), attended)
    inner = gelu(linear(layer_norm(x, parts, "norm2", eps[1]), parts, "mlp.fc1"))
    return _sum(x, linear(inner, parts, "mlp.fc2"))


def _split(rows: Tensor, heads: int) -> Tensor:
    """Split queries, keys and values: `(b, n, 3 d)` to `(3, b, heads, n, d / heads)`."""
    return rows.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)


def _each(x: Dual, do: Callable[[Tensor], Tensor]) -> Dual:
    return do(x[0]), do(x[1])


def _sum(x: Dual, y: Dual) -> Dual:
    return x[0] + y[0], x[1] + y[1]


class DualBlock(nn.Module):
    """A plain block for forward mode: it takes and returns dual tensors, and its weights are dual tensors meanwhile.

    The block's modules are used under their names, not copied. Without dual tensors it is the block.
    """

    def __init__(self, plain: Any) -> None:
        super().__init__()
        for name, module in plain.named_children():
            self.add_module(name, module)
        self._plain: Any = (plain,)  # in a tuple, as its modules are this one's
        self._in_dual = block

    def compile(self, *given: Any, **options: Any) -> None:
        """Compile what is done to tensors, as forward mode cannot be compiled; see `nn.Module.compile`."""
        self._in_dual = torch.compile(block, *given, **options)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Any:
        """Return the block's output, a dual tensor if the weights are."""
        assert attn_mask is None and not is_causal, "masks are not written out"
        parts = {name: forward_ad.unpack_dual(part) for name, part in self.named_parameters()}
        (plain,) = self._plain
        if all(part.tangent is None for part in parts.values()):
            return plain(x)
        tokens, read = _dual(*forward_ad.unpack_dual(x)), 1 if isinstance(plain, ClassTokenBlock) else x.shape[1]
        whole = {name: _dual(*part) for name, part in parts.items()}
        eps = plain.norm1.eps, plain.norm2.eps
        return forward_ad.make_dual(*self._in_dual(tokens, whole, plain.attn.num_heads, read, eps))


def _dual(value: Tensor, tangent: Tensor | None) -> Dual:
    return value, torch.zeros_like(value) if tangent is None else tangent


def write_blocks_out(vit: VisionTransformer) -> bool:
    """Replace every block of a ViT that this module has the derivative of by a `DualBlock`; return whether all are."""
    for k, each in enumerate(vit.blocks):
        if _is_known(each):
            vit.blocks[k] = DualBlock(each)
    return all(isinstance(each, DualBlock) for each in vit.blocks)


def _is_known(plain: Any) -> bool:
    """Whether a block is timm's with plain attention, layer norms and GELU, and without dropout and scales."""
    return (
        type(plain) in (Block, ClassTokenBlock)
        and (isinstance(plain.attn, FewTokensAttention) or is_plain(plain.attn))
        and all(isinstance(norm, nn.LayerNorm) and norm.bias is not None for norm in (plain.norm1, plain.norm2))
        and all(isinstance(each, nn.Identity) for each in (plain.ls1, plain.ls2, plain.drop_path1, plain.drop_path2))
        and _is_known_mlp(plain.mlp)
    )


def _is_known_mlp(mlp: Any) -> bool:
    return (
        type(mlp) is Mlp
        and isinstance(mlp.norm, nn.Identity)
        and isinstance(mlp.act, nn.GELU)
        and mlp.act.approximate == "none"
        and mlp.drop1.p == mlp.drop2.p == 0.0
    )
