"""Multi-head attention: the fused kernel, or explicit products.

torch's fused kernels have no forward-mode derivatives. Explicit products have them, and the same values up to the order
of floating-point sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, fused: bool) -> Tensor:
    """Return softmax(q k^T / sqrt(w) + mask) v.

    Queries are `(b, heads, n, w)`, keys and values `(b, heads, m, w)`, and the output is `(b, heads, n, w)`. The mask
    says which keys a query may attend to (bool), or is added to its scores; it is broadcast to `(b, heads, n, m)`.
    """
    if fused:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = (q * q.shape[-1] ** -0.5) @ k.mT
    return masked(scores, mask).softmax(-1) @ v


def masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return masked scores: -inf where a bool mask is False, or the sum with an additive mask."""
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask


def write_out(model: nn.Module) -> None:
    """Make every attention of a timm model compute explicit products instead of the fused kernel."""
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False  # type: ignore[assignment]  # timm's own switch


@contextmanager
def written_out(model: nn.Module) -> Iterator[None]:
    """Make every attention of a timm model compute explicit products inside the `with` block."""
    fused = {module: module.fused_attn for module in model.modules() if hasattr(module, "fused_attn")}
    write_out(model)
    try:
        yield
    finally:
        for module, before in fused.items():
            module.fused_attn = before


def is_plain(attention: nn.Module) -> bool:
    """Whether a module is timm's `Attention` without normalisation, gate and dropout."""
    from timm.layers import Attention  # timm takes two seconds to import

    return (
        type(attention) is Attention
        and all(isinstance(norm, nn.Identity) for norm in (attention.q_norm, attention.k_norm, attention.norm))
        and attention.gate is None
        and attention.attn_drop.p == attention.proj_drop.p == 0.0
    )
