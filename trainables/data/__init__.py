"""Benchmarks: a dataset split into tasks, with its protocol."""

from __future__ import annotations

from trainables.backbones import EMBEDDED
from trainables.data import digits, glyphs
from trainables.data.benchmark import Benchmark, BenchmarkSource, BenchmarkSpec, Purpose, Task, build_benchmark
from trainables.data.images import ImageSet
from trainables.data.transforms import Normalise, RandomShift, small_transforms
from trainables.errors import InputError

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "BenchmarkSource",
    "BenchmarkSpec",
    "ImageSet",
    "Normalise",
    "Purpose",
    "RandomShift",
    "Task",
    "build_benchmark",
    "get_source",
]

BENCHMARKS: dict[str, BenchmarkSource] = {
    source.__name__.rsplit(".", 1)[1]: BenchmarkSource(
        name=source.__name__.rsplit(".", 1)[1],
        class_names=source.CLASS_NAMES,
        num_tasks=tasks,
        epochs=5,
        batch_size=32,
        backbone=EMBEDDED,
        load=source.load,
        transforms=small_transforms,
    )
    for source, tasks in ((digits, 5), (glyphs, 10))
}


def get_source(name: str) -> BenchmarkSource:
    """Look a benchmark up by name.

    Returns:
        Its specification with the means to read it.

    Raises:
        InputError: If there is none of that name.
    """
    if name not in BENCHMARKS:
        raise InputError(f"unknown benchmark {name!r}; allowed: {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]
