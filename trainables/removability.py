"""What each task of a finished sequence loses without its vector, and what the others lose with it.

The composition without a task is that of `compose --drop`, with the rows of its classes, and that of `--forget`,
without them: the other vectors have equal weights that sum to 1.
"""

from __future__ import annotations

import torch

from trainables.composition import SavedVector, packed, unpacked
from trainables.data import Benchmark
from trainables.evaluation import accuracies_without
from trainables.methods import Composable
from trainables.metrics import removability
from trainables.state import State


class LeaveOneTaskOut:
    """The finished task vectors of a sequence, kept on the CPU to compose them anew after the last task."""

    def __init__(self) -> None:
        self.vectors: list[SavedVector] = []

    def metrics(
        self, method: Composable, benchmark: Benchmark, whole: list[float], device: torch.device
    ) -> dict[str, float]:
        """Return the four metrics; `whole` is the accuracy of the composition of all vectors on each task, percent."""
        count = len(self.vectors)
        without: list[list[float]] = []
        forgotten: list[list[float]] = []
        for out, task in enumerate(benchmark.tasks):
            weights = [0.0 if t == out else 1 / (count - 1) for t in range(count)]
            with method.composed(self.vectors, weights):
                both = [accuracies_without(method.predict, each, task.classes, device) for each in benchmark.evaluation]
            without.append([whole for whole, _ in both])
            forgotten.append([rest for _, rest in both])
        return dict(zip(benchmark.metrics.removability, removability(whole, without, forgotten), strict=True))

    def state(self) -> State:
        """Return the vectors, which no later task changes."""
        state = State()
        for t, vector in enumerate(self.vectors, start=1):
            header, tensors = packed(vector)
            state |= State(constant=tensors, values={"header": {**header}}).within(f"task_{t}")
        return state

    def load_state(self, state: State, tasks: int) -> None:
        """Continue after so many tasks, from a `state`."""
        parts = (state.part(f"task_{t}") for t in range(1, tasks + 1))
        self.vectors = [unpacked(part.values["header"], part.constant) for part in parts]  # type: ignore[arg-type]
