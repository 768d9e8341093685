"""Benchmarks: a dataset split into tasks, with its protocol.

Not here: what a backbone expects of its input (`backbones.inputs`), and how a method batches images (`methods`).
"""

from __future__ import annotations

from trainables.data.benchmark import Benchmark, BenchmarkSource, BenchmarkSpec, Task, build_benchmark
from trainables.data.embedded import BENCHMARKS
from trainables.data.images import Batch, ImageSet, concatenate, of_classes, stacked
from trainables.data.published import PUBLISHED
from trainables.data.reference import BenchmarkRef
from trainables.data.removal import Removal, without
from trainables.data.sources import get_source, reference, split_references
from trainables.data.transforms.cropping import RandomShift
from trainables.data.transforms.normalisation import Images, Normalise
from trainables.data.transforms.recipes import Recipe, small_transforms
from trainables.data.transforms.spec import TransformSpec, described

__all__ = [
    "BENCHMARKS",
    "PUBLISHED",
    "Batch",
    "Benchmark",
    "BenchmarkRef",
    "BenchmarkSource",
    "BenchmarkSpec",
    "ImageSet",
    "Images",
    "Normalise",
    "RandomShift",
    "Recipe",
    "Removal",
    "Task",
    "TransformSpec",
    "build_benchmark",
    "concatenate",
    "described",
    "get_source",
    "of_classes",
    "reference",
    "small_transforms",
    "split_references",
    "stacked",
    "without",
]
