"""A stand-in for CUDA graphs on a CPU, and steps that are launched one by one in place of recorded ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from trainables.data import Batch
from trainables.methods.cuda_graphs import GraphedStep

LOOKS = ("aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero", "aten::equal")  # wait for a GPU


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


class Graph(TorchDispatchMode):
    """In place of `torch.cuda.CUDAGraph`: as a context it notes all operations, and repeats them on the same tensors.

    Attributes:
        made: All graphs since `graphs_on_a_cpu` began.
        replays: How often this graph was replayed.
    """

    made: list[Graph] = []

    def __init__(self) -> None:
        super().__init__()
        self.replays = 0
        self._operations: list[tuple[Any, Any, Any, list[Tensor]]] = []
        self._before: list[tuple[Tensor, Tensor]] = []  # tensors that were written to, and what they held
        Graph.made.append(self)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func._schema.name in LOOKS:
            raise RuntimeError(f"{func._schema.name} reads a value while a graph is recorded")
        for place, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                written = args[place] if place < len(args) else kwargs.get(argument.name)
                self._before += [(each, each.clone()) for each in _tensors(written)]
        found = func(*args, **kwargs)
        inputs = {each.untyped_storage().data_ptr() for each in _tensors((args, kwargs))}
        made = [each if each.untyped_storage().data_ptr() not in inputs else None for each in _tensors(found)]
        self._operations.append((func, args, kwargs, made))
        return found

    @torch.no_grad()
    def undo(self) -> None:
        """Take back what the operations wrote: a GPU does not run what it records."""
        for tensor, before in reversed(self._before):
            tensor.copy_(before)
        self._before.clear()

    @torch.no_grad()
    def replay(self) -> None:
        """Repeat the operations; a result goes into the tensor that held it in the recording."""
        self.replays += 1
        for func, args, kwargs, made in self._operations:
            for old, new in zip(made, _tensors(func(*args, **kwargs)), strict=True):
                if old is not None:
                    old.copy_(new)


@contextmanager
def _recorded(graph: Graph, pool: object, capture_error_mode: str) -> Iterator[None]:
    assert pool is POOL and capture_error_mode == "thread_local"
    with graph:
        yield
    graph.undo()


POOL = object()


def put_graphs_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """Replace CUDA graphs by the stand-in until the end of a test; return the list of graphs that will be made."""
    monkeypatch.setattr(Graph, "made", [])
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", _recorded)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: POOL)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    return Graph.made


def launched(step: GraphedStep, batch: Batch, factor: float) -> Tensor:
    """Do a step without a recording; in place of `GraphedStep.__call__`.

    The schedule's factor is a float32 tensor, as in a recording. In steps that are never recorded it is a float64
    number, so learning rates below the first are rounded otherwise.
    """
    step._factor.fill_(factor)
    return step._step(batch, step._factor)
