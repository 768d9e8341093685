"""Heads averaged like the weights: a strict reading of theta_P = theta_0 + (1/T) sum_t tau_t.

In that reading theta_0 holds h0, and tau_t holds h_t - h0_t on the rows of task t and 0 on other rows. So the composed
model has the rows h0_t + (h_t - h0_t) / T. The default and the authors' code use h_t as trained.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.heads import Head, Heads, part_of_way
from trainables.state import State


class AveragedHeads(Heads):
    """`Heads` with their anchors h0_1, ..., h0_t, each as it was at its task."""

    def __init__(self, width: int, device: torch.device) -> None:
        super().__init__(width, device)
        self.anchors = Heads(width, device)
        self.count = 0  # finished tasks
        self.share = 1.0

    def anchor_at(self, anchor: Head, share: float) -> None:
        """Set h0_t, `(c, d)` and `(c,)`, and the share of h_t - h0_t in the trained model: 1/t for IEL, 1 for ITA."""
        self.anchors.begin(anchor)
        self.share = share

    def end(self) -> None:
        """Freeze the current head and its anchor."""
        super().end()
        self.anchors.end()
        self.count += 1

    def local_logits(self, features: Tensor) -> Tensor:
        """Return logits of the current task's classes alone: `(b, d)` to `(b, c_t)`."""
        start, (weight, bias) = self.anchors.current, self.current
        return F.linear(features, *part_of_way((start[0].detach(), start[1].detach()), (weight, bias), self.share))

    def logits(self, features: Tensor) -> Tensor:
        """Return logits of all finished classes: `(b, d)` to `(b, C)`; each head has 1/T of h_t - h0_t."""
        anchors, trained = (self.anchors.weight, self.anchors.bias), (self.weight, self.bias)
        return F.linear(features, *part_of_way(anchors, trained, 1 / max(1, self.count)))

    def state(self) -> State:
        """Return the finished heads, their anchors and the number of tasks."""
        return super().state() | self.anchors.state().within("anchors") | State(values={"count": self.count})

    def load_state(self, state: State) -> None:
        """Continue from a `state`."""
        super().load_state(state)
        self.anchors.load_state(state.part("anchors"))
        self.count = int(state.values["count"])  # type: ignore[arg-type]
