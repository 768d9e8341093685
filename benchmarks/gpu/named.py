"""The benchmarks of a GPU by name, on a machine without Ray, too. What is measured on a GPU is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.gpu import NO_GPU, cost, kernels, packing, precisions, reading, repeats, steps, systems
from benchmarks.performance import kept
from benchmarks.performance.lines import Rows

MEASURED = Path(__file__).parent / "measured"
COST, PRECISIONS, STEPS = "gpu-cost", "gpu-precisions", "gpu-steps"
SYSTEMS, PACKING, READING, GRAPHS = "gpu-systems", "gpu-packing", "gpu-reading", "gpu-graphs"
ON_GPUS: dict[str, Callable[[], Rows]] = {
    "gpu-repeats": repeats.run,
    SYSTEMS: systems.run,
    PACKING: packing.run,
    COST: cost.run,
    PRECISIONS: precisions.run,
    STEPS: steps.run,
    GRAPHS: steps.run_graphs,
    READING: reading.run_on_gpu,
}
BENCHMARKS: dict[str, Callable[[], Rows]] = {"reading": reading.run, "kernels": kernels.run, **ON_GPUS}


def measured(name: str, folder: Path | None = None, commit: str | None = None) -> Rows:
    """Run a benchmark and keep what it measured, by default for the pages, unless it needs a GPU and there is none."""
    if name in ON_GPUS and not torch.cuda.is_available():
        return NO_GPU
    return kept.measure(name, BENCHMARKS[name], folder or (MEASURED if name in ON_GPUS else kept.MEASURED), commit).rows
