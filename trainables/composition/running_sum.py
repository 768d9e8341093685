"""The composed model of a sequence under way, theta_0 + w sum_t tau_t, from a running sum in constant memory.

Source: the paper, eq. (composition_base) with w_t = 1/T, and section Computational analysis.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trainables.state import State
from trainables.task_vectors.base import TaskVectors


class Composition:
    """The sum of all finished task vectors."""

    def __init__(self, theta_0: dict[str, Tensor]) -> None:
        # Tuned weight name to sum_t tau_t, (out, in).
        self.sums = {name: torch.zeros_like(weight) for name, weight in theta_0.items()}
        self.count = 0

    @torch.no_grad()
    def add(self, dense: Callable[[str], Tensor]) -> None:
        """Add a task vector; `dense` returns its tau on a tuned weight, `(out, in)`."""
        for name, total in self.sums.items():
            total += dense(name)
        self.count += 1

    def apply(self, vectors: TaskVectors, weight: float) -> None:
        """Set every base to theta_0 + weight * sum_t tau_t; weight 0 gives theta_0."""
        for name, theta_0 in vectors.theta_0.items():
            vectors.set_base(name, theta_0 + weight * self.sums[name])

    def state(self) -> State:
        """Return sums and count."""
        return State(self.sums).within("sums") | State(values={"count": self.count})

    def load_state(self, state: State) -> None:
        """Load sums and count onto the present device."""
        sums = state.part("sums").tensors
        for name, total in self.sums.items():
            total.copy_(sums[name])
        self.count = int(state.values["count"])  # type: ignore[arg-type]
