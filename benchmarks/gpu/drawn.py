"""Two tasks of drawn pictures in the shape of a published dataset, with fewer images of fewer classes.

Pictures are JPEG files in the sizes of `reading`, in class folders of `train` and `test`, read as `folder:PATH`; those
of `cifar100` are in memory, as in the product. Their training and test transforms and the batch are the dataset's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from benchmarks.gpu.reading import QUALITY, SIDES, pixels, size
from benchmarks.planning.table import DATASETS
from trainables.backbones import Backbone
from trainables.data import Benchmark, BenchmarkSource, build_benchmark
from trainables.data.disk import folder
from trainables.data.published import PAPER_BATCH, PUBLISHED
from trainables.data.splits import SPLIT_NAMES, VALIDATION_SHARE, SplitName

TASKS = 2


@dataclass(frozen=True)
class Cut:
    """How much of a dataset is drawn: at most so much, where a task of the dataset has more."""

    images: int = 512  # training images of the second task
    first: int = 256  # training images of the first task
    classes: int = 5  # fewest classes of a task; more where a class has few images
    evaluated: int = 128  # evaluation images of each task
    epochs: int = 3  # passes over the training images, two at least
    fisher: int = 64  # images of the second task that the Fisher is taken over; of the first a quarter


@dataclass(frozen=True)
class Shape:
    """What a trial of a search on a whole dataset computes over: a tenth of the training images is held out."""

    tasks: int  # their number T
    epochs: int  # passes over the images of a task
    images: float  # training images of a task, on average
    evaluated: float  # held-out images of a task, on average
    classes: float  # classes of a task, on average

    @classmethod
    def of(cls, dataset: str) -> Shape:
        """Return the shape of one of the paper's datasets."""
        tasks, epochs, train, _ = DATASETS[dataset]
        classes = next(iter(PUBLISHED[dataset].expected.values())).classes
        held_out = VALIDATION_SHARE * train / tasks
        return cls(tasks, epochs, train / tasks - held_out, held_out, classes / tasks)


@dataclass(frozen=True)
class Counts:
    """Classes of each of the two tasks, and images of each class."""

    classes: int
    train: tuple[int, int]  # of a class of the first task, and of the second
    test: int

    @classmethod
    def of(cls, dataset: str, cut: Cut) -> Counts:
        """Return what a cut leaves of a dataset."""
        shape = Shape.of(dataset)
        each = max(3, min(int(shape.images / shape.classes), cut.images // cut.classes))
        classes = max(cut.classes, min(math.ceil(shape.classes), cut.images // each))
        first = max(3, each * cut.first // cut.images)
        return cls(classes, (first, each), max(1, round(min(cut.evaluated, shape.evaluated) / classes)))

    def of_class(self, label: int, part: SplitName) -> int:
        """Return the images of one class."""
        return self.test if part == "test" else self.train[label // self.classes]


def draw(root: Path, dataset: str, cut: Cut, spread: Callable[..., Iterable[Any]] = map) -> None:
    """Write the files of a dataset under `root / dataset`; `spread` maps a function over them, as `map` does."""
    if dataset not in SIDES:
        return
    counts = Counts.of(dataset, cut)
    jobs: list[tuple[str, str, int]] = []
    for part in SPLIT_NAMES:
        for label in range(TASKS * counts.classes):
            place = root / dataset / part / f"class{label:03d}"
            place.mkdir(parents=True)
            jobs += [(str(place / f"{n}.jpg"), dataset, len(jobs) + n) for n in range(counts.of_class(label, part))]
    list(spread(_write, jobs))


def _write(job: tuple[str, str, int]) -> None:
    """Draw and write one file."""
    file, dataset, seed = job
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(seed)
    image = pixels(*size(dataset, generator), generator)
    Image.fromarray(image.permute(1, 2, 0).numpy()).save(file, quality=QUALITY)


def benchmark(root: Path, dataset: str, cut: Cut, backbone: Backbone) -> Benchmark:
    """Return the two tasks, with `test` for their evaluation."""
    counts = Counts.of(dataset, cut)
    load: Any = folder.find(root / dataset).load if dataset in SIDES else partial(_in_memory, counts)
    source = BenchmarkSource(
        name=dataset,
        class_names=tuple(f"class{label:03d}" for label in range(TASKS * counts.classes)),
        num_tasks=TASKS,
        epochs=cut.epochs,
        batch_size=PAPER_BATCH,
        backbone=backbone.name,
        load=load,
        transforms=PUBLISHED[dataset].recipe,
    )
    return build_benchmark(source, "final", reads=backbone.input)


def _in_memory(counts: Counts, part: SplitName) -> tuple[Tensor, Tensor]:
    """Return noise of 32x32, uint8 `(n, 3, 32, 32)`, and labels `(n,)`."""
    labels = torch.tensor(
        [label for label in range(TASKS * counts.classes) for _ in range(counts.of_class(label, part))]
    )
    generator = torch.Generator().manual_seed(len(labels))
    return torch.randint(0, 256, (len(labels), 3, 32, 32), dtype=torch.uint8, generator=generator), labels
