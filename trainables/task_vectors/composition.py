"""The composed model theta_0 + w sum_t tau_t, from a running sum: constant memory in the number of tasks.

Source: the paper, eq. (composition_base) with w_t = 1/T, and section Computational analysis.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.task_vectors.base import TaskVectors


class Composition:
    """The sum of all finished task vectors.

    Attributes:
        sums: Tuned weight name to sum_t tau_t, `(out, in)`.
        count: Number of task vectors in the sum.
    """

    def __init__(self, theta_0: dict[str, Tensor]) -> None:
        self.sums = {name: torch.zeros_like(weight) for name, weight in theta_0.items()}
        self.count = 0

    @torch.no_grad()
    def add(self, vectors: TaskVectors) -> None:
        """Add the current task vector."""
        for name, total in self.sums.items():
            total += vectors.dense(name)
        self.count += 1

    def apply(self, vectors: TaskVectors, weight: float) -> None:
        """Set every base to theta_0 + weight * sum_t tau_t; weight 0 gives theta_0."""
        for name, theta_0 in vectors.theta_0.items():
            vectors.set_base(name, theta_0 if weight == 0 else theta_0 + weight * self.sums[name])

    def state_dict(self) -> dict[str, object]:
        """Return the sums and their count."""
        return {"sums": dict(self.sums), "count": self.count}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Take over what `state_dict` returned, onto the present device."""
        sums: dict[str, Tensor] = state["sums"]  # type: ignore[assignment]
        for name, total in self.sums.items():
            total.copy_(sums[name])
        self.count = int(state["count"])  # type: ignore[call-overload]
