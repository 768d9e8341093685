"""Benchmarks: a dataset split into tasks, with its protocol.

Not here: what a backbone expects of its input (`backbones.inputs`), and how a method batches images (`methods`).
"""

from __future__ import annotations

from trainables.data.benchmark import (
    Benchmark as Benchmark,
    BenchmarkSource as BenchmarkSource,
    BenchmarkSpec as BenchmarkSpec,
    Task as Task,
    build_benchmark as build_benchmark,
    require_counts as require_counts,
)
from trainables.data.embedded import BENCHMARKS as BENCHMARKS
from trainables.data.images import (
    Batch as Batch,
    ImageSet as ImageSet,
    concatenate as concatenate,
    of_classes as of_classes,
    stacked as stacked,
)
from trainables.data.published import PUBLISHED as PUBLISHED
from trainables.data.reference import BenchmarkRef as BenchmarkRef, slug_of as slug_of
from trainables.data.removal import Removal as Removal, without as without
from trainables.data.sources import (
    get_source as get_source,
    reference as reference,
    references as references,
    split_references as split_references,
)
from trainables.data.transforms.cropping import RandomShift as RandomShift
from trainables.data.transforms.normalisation import Images as Images, Normalise as Normalise
from trainables.data.transforms.recipes import Recipe as Recipe, small_transforms as small_transforms
from trainables.data.transforms.spec import TransformSpec as TransformSpec, described as described
