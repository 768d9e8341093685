"""Kernels that a training step would launch on a GPU: `ita-lora` on digits, counted on the CPU by torch's profiler.

An operation counts if it computes or copies and calls no other one that does: a linear layer is one. Views and
allocations do not count. An operation on a list of tensors is one, as on a GPU. Two things differ from a GPU: its
attention is one kernel, and the order and shifts of images are drawn on the CPU.
"""

from __future__ import annotations

import math
from typing import Any

from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

from benchmarks.performance.lines import Line, column
from benchmarks.stages import HYPERPARAMETERS
from trainables.backbones import Backbone
from trainables.data import build_benchmark, get_source
from trainables.process import settle
from trainables.sequence import IncrementalSequence

BEFORE, COMMIT = 232.0, "d35d00c"  # kernels of a step at that commit, counted by `launches` there
LISTS = ("aten::_foreach_", "aten::_fused_")
PRODUCTS = frozenset(f"aten::{name}" for name in ("mm", "addmm", "bmm", "baddbmm", "convolution"))
VIEWS = """
view reshape transpose t numpy_T permute expand expand_as as_strided as_strided_ unsqueeze squeeze select slice narrow
unbind split split_with_sizes chunk flatten unflatten detach detach_ alias _unsafe_view _reshape_alias resize_ to
contiguous lift_fresh resolve_conj resolve_neg result_type item is_nonzero _local_scalar_dense dropout
"""  # dropout is off
ALLOCATIONS = "empty empty_like empty_strided new_empty"
FREE = frozenset(f"aten::{name}" for name in f"{VIEWS} {ALLOCATIONS}".split())
LINES = (
    Line(what="kernels of a step of `ita-lora` on digits", values=column("kernels"), shown=".0f"),
    Line(
        what=f"the same / {BEFORE:.0f}, their number at commit {COMMIT}",
        values=column("share"),
        at_most=0.5,
        floor="matrix products alone",
        floors=column("share of products"),
    ),
)


def launches(event: FunctionEvent) -> int:
    """Return the number of kernels that an operation launches, with those of the operations that it calls."""
    if event.name.startswith(LISTS):
        return 1
    inside = sum(map(launches, event.cpu_children))
    return inside or int(event.name.startswith("aten::") and event.name not in FREE)


def run() -> list[dict[str, Any]]:
    """Count over the training of the first task, which includes the checks of epochs, and divide by its steps."""
    settle(1)
    built = build_benchmark(get_source("digits"), "search")
    trial = IncrementalSequence(built, "ita-lora", HYPERPARAMETERS, backbone=Backbone())
    task = trial.tasks[0]
    trial.method.begin_task(task)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        trial.method.train_task(task)
    steps, events = built.spec.epochs * math.ceil(len(task.train) / built.spec.batch_size), profiler.events()
    kernels = sum(launches(event) for event in events if event.cpu_parent is None) / steps
    products = sum(event.name in PRODUCTS for event in events) / steps
    return [{"kernels": kernels, "share": kernels / BEFORE, "share of products": products / BEFORE}]
