"""Benchmarks: a dataset split into tasks, with its protocol."""

from __future__ import annotations

from trainables.data import digits, glyphs
from trainables.data.benchmark import Benchmark, BenchmarkSpec, Purpose, Task, build_benchmark
from trainables.data.images import ImageSet, Normalise, RandomShift
from trainables.errors import InputError

__all__ = ["BENCHMARKS", "Benchmark", "BenchmarkSpec", "ImageSet", "Purpose", "Task", "build_benchmark", "get_spec"]

_SMALL = {"epochs": 5, "batch_size": 32, "backbone": "glyph_vit"}
_SMALL_TRANSFORMS = {"train_transform": RandomShift(2), "eval_transform": Normalise()}

BENCHMARKS: dict[str, BenchmarkSpec] = {
    spec.name: spec
    for spec in (
        BenchmarkSpec("digits", digits.CLASS_NAMES, 5, load=digits.load, **_SMALL, **_SMALL_TRANSFORMS),  # type: ignore[arg-type]
        BenchmarkSpec("glyphs", glyphs.CLASS_NAMES, 10, load=glyphs.load, **_SMALL, **_SMALL_TRANSFORMS),  # type: ignore[arg-type]
    )
}


def get_spec(name: str) -> BenchmarkSpec:
    """Look a benchmark up by name.

    Returns:
        What is known of it before its images are read.

    Raises:
        InputError: If there is none of that name.
    """
    if name not in BENCHMARKS:
        raise InputError(f"unknown benchmark {name!r}; allowed: {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]
