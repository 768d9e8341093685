"""A training step on a GPU as a CUDA graph: recorded once for each shape of batches, then launched as one kernel is.

A step of a small network launches two hundred kernels, and each takes less time than its launch. A graph repeats the
launches that were recorded, with the tensors of the recording: so nothing of a step may depend on values that the CPU
reads. What differs from step to step is in tensors: images, labels, and the schedule's factor.

Source: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.data import Batch

GraphStep = Callable[[Batch, Tensor], Tensor]  # batch and c_e, `()`, on the GPU, to detached loss


@dataclass(frozen=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    x: Tensor
    y: Tensor
    loss: Tensor

    def replay(self, batch: Batch) -> Tensor:
        self.x.copy_(batch.x)
        self.y.copy_(batch.y)
        self.graph.replay()
        return self.loss.clone()  # the next replay overwrites it


class GraphedStep:
    """A step for `fit` that records itself at the second batch of each shape, and repeats the recording from then on.

    The first batch runs as usual: libraries allocate at their first call, and the optimiser makes its state.
    """

    def __init__(self, step: GraphStep, device: torch.device) -> None:
        self._step = step
        self._factor = torch.ones((), device=device)
        self._seen: set[torch.Size] = set()
        self._recordings: dict[torch.Size, _Recording] = {}
        self._pool = torch.cuda.graph_pool_handle()  # one for all: no recording reads what another wrote

    def __call__(self, batch: Batch, factor: float) -> Tensor:
        """Do one step and return its detached loss."""
        self._factor.fill_(factor)
        shape = batch.x.shape
        if shape not in self._seen:
            self._seen.add(shape)
            return self._step(batch, self._factor)
        if shape not in self._recordings:
            self._recordings[shape] = self._record(batch)
        return self._recordings[shape].replay(batch)

    def _record(self, batch: Batch) -> _Recording:
        """Record a step without doing it. Other threads may allocate pinned memory meanwhile."""
        x, y, graph = batch.x.clone(), batch.y.clone(), torch.cuda.CUDAGraph()
        torch.cuda.empty_cache()  # a recording has memory of its own, and needs what the first batch has left
        no_rows = batch.rows[:0]  # they are on the CPU: a step that needs them must not be recorded
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            loss = self._step(Batch(x, y, no_rows), self._factor)
        return _Recording(graph, x, y, loss)
