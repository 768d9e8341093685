"""Classification heads of the tasks seen so far: one block of rows per task, older blocks frozen."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Head = tuple[Tensor, Tensor]


class Heads:
    """Finished heads h_1, ..., h_{t-1} and the trainable head h_t.

    Args:
        width: d, the backbone's feature width.
        device: Where the heads lie.
    """

    def __init__(self, width: int, device: torch.device) -> None:
        self.weight = torch.empty(0, width, device=device)  # finished rows (C_past, d)
        self.bias = torch.empty(0, device=device)
        self.current: list[nn.Parameter] = []

    def begin(self, start: Head) -> None:
        """Begin the head of a new task at the given rows, `(c, d)` and `(c,)`."""
        self.current = [nn.Parameter(part.detach().clone().to(self.weight.device)) for part in start]

    def end(self) -> None:
        """Freeze the current head."""
        weight, bias = (part.detach() for part in self.current)
        self.weight, self.bias = torch.cat([self.weight, weight]), torch.cat([self.bias, bias])
        self.current = []

    def local_logits(self, features: Tensor) -> Tensor:
        """Return logits of the current task's classes alone: `(b, d)` to `(b, c_t)`.

        The local cross-entropy needs no others: masking past classes with -inf gives the same loss.
        """
        weight, bias = self.current
        return F.linear(features, weight, bias)

    def logits(self, features: Tensor) -> Tensor:
        """Return logits of all finished classes: `(b, d)` to `(b, C)`."""
        return F.linear(features, self.weight, self.bias)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the finished rows."""
        return {"weight": self.weight, "bias": self.bias}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over finished rows."""
        self.weight, self.bias = state["weight"].to(self.weight.device), state["bias"].to(self.bias.device)
