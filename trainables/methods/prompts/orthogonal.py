"""Gram-Schmidt at the start of a CODA-Prompt task: new rows, orthogonal to the earlier rows."""

from __future__ import annotations

import torch
from torch import Tensor

NOTHING_LEFT = 1e-3  # share of a draw's norm; a smaller remainder is rounding


def orthogonal_rows(past: Tensor, draws: Tensor) -> Tensor:
    """Return unit rows `(l, n, d)` from random draws, in turn: u = v - sum_j (v.u_j / |u_j|^2) u_j, then u / |u|.

    The sum is over all earlier rows as they are. If those are orthogonal to each other, this is Gram-Schmidt. Trained
    rows are not; then a new row is not exactly orthogonal to them either. Once the rows of `past` leave nothing of a
    draw, they are left out of the sum, so that there is room for the rest.

    Args:
        past: Earlier rows of each layer, `(l, s, d)`; s may be 0.
        draws: Random rows, `(l, n, d)` with n <= d.
    """
    new = past[:, :0]
    for draw in draws.unbind(1):
        left = _without(draw, torch.cat([past, new], 1))
        full = left.norm(dim=1) < NOTHING_LEFT * draw.norm(dim=1)
        past = past.masked_fill(full[:, None, None], 0)
        row = _without(draw, torch.cat([past, new], 1))
        new = torch.cat([new, (row / row.norm(dim=1, keepdim=True))[:, None]], 1)
    return new


def _without(draw: Tensor, rows: Tensor) -> Tensor:
    """Subtract from a draw, `(l, d)`, its projection on each of the rows, `(l, s, d)`; rows of zeros take nothing."""
    parts = torch.einsum("ld,lsd->ls", draw, rows) / rows.square().sum(2).clamp_min(torch.finfo(rows.dtype).tiny)
    return draw - torch.einsum("ls,lsd->ld", parts, rows)
