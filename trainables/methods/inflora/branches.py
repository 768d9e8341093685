"""Low-rank branches on keys and values: k = (W_k + sum_s B_s^k A_s) x + b_k, and the same for v; queries have none."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class KeyValueBranch(nn.Module):
    """The projection to queries, keys and values of one block, with a branch of rank r on keys and values.

    Finished branches are added to the weight, so they cost nothing in evaluation. `layer` is `attn.qkv`, `(d,)` to
    `(3 d,)`; its weight is copied.
    """

    weight: Tensor  # (3 d, d), frozen
    bias: Tensor | None  # (3 d,), frozen

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.width = layer.in_features
        self.register_buffer("weight", layer.weight.detach().clone())
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach())
        self.a: Tensor | None = None  # (r, d), of the current task; None between tasks
        self.b: nn.Parameter | None = None  # (2 d, r), of keys and, below it, of values; trained

    def begin(self, a: Tensor) -> None:
        """Begin a branch with the given A, `(r, d)`, and B = 0."""
        self.a = a.to(self.weight.device)
        self.b = nn.Parameter(self.weight.new_zeros(2 * self.width, len(a)))

    @torch.no_grad()
    def end(self) -> tuple[Tensor, Tensor]:
        """Add the current branch to the weight; returns its A and B."""
        assert self.a is not None and self.b is not None
        a, b = self.a, self.b.detach()
        self.add(a, b)
        self.a = self.b = None
        return a, b

    @torch.no_grad()
    def add(self, a: Tensor, b: Tensor) -> None:
        """Add a finished branch, `(r, d)` and `(2 d, r)`, to the weight."""
        self.weight[self.width :] += b @ a

    def forward(self, x: Tensor) -> Tensor:
        """Map `(..., d)` to `(..., 3 d)`."""
        y = F.linear(x, self.weight, self.bias)
        if self.a is not None and self.b is not None:
            y[..., self.width :] += F.linear(F.linear(x, self.a), self.b)
        return y


def branch_keys_and_values(model: nn.Module) -> dict[str, KeyValueBranch]:
    """Freeze a ViT and replace every `attn.qkv` by a branch; returns name to branch, in block order."""
    model.requires_grad_(False)
    found = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear) and n.endswith("attn.qkv")}
    branches = {name: KeyValueBranch(layer) for name, layer in found.items()}
    for name, branch in branches.items():
        model.set_submodule(name, branch)
    return branches
