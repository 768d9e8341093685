"""A benchmark: a dataset split into tasks with disjoint classes, with its protocol.

A benchmark is built for one of two purposes. For a `search` the training set is split 90/10, and the test part is never
loaded: no reference in the object leads to the test part. For a `final` run the whole training set trains and the test
part evaluates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from trainables.backbones import Backbone, InputSpec
from trainables.config import Purpose
from trainables.data.images import ImageSet, StoredImages, concatenate, of_classes, select
from trainables.data.splits import VALIDATION_SHARE, SplitName, stratified_split, task_sizes
from trainables.data.transforms.normalisation import Transform, repeatable_text
from trainables.errors import InputError, OtherImagesError
from trainables.metrics import MetricNames, names_of
from trainables.task_names import NamedTask, named_tasks


@dataclass(frozen=True)
class BenchmarkSpec:
    """The protocol of a benchmark, without images."""

    name: str  # on the command line
    class_names: tuple[str, ...]  # in label order
    num_tasks: int  # T
    epochs: int  # passes over a task's training images in fine-tuning
    batch_size: int  # examples per optimiser step
    backbone: str  # the default
    sizes: tuple[int, ...] = field(default=(), kw_only=True)  # classes of each task; without, as equal as they can be
    task_names: tuple[str | None, ...] = field(default=(), kw_only=True)  # names of the tasks, where they have some
    left_out: tuple[str, ...] = field(default=(), kw_only=True)  # classes of the images that are in no task

    @property
    def task_classes(self) -> tuple[range, ...]:
        """The classes of each task: consecutive positions in the class order."""
        ends = [0, *accumulate(self.sizes or task_sizes(len(self.class_names), self.num_tasks))]
        return tuple(range(first, end) for first, end in pairwise(ends))

    @property
    def named_tasks(self) -> tuple[NamedTask, ...]:
        """The tasks by the names of their classes, and their own names."""
        groups = [self.class_names[classes.start : classes.stop] for classes in self.task_classes]
        return named_tasks(groups, self.task_names)


@dataclass(frozen=True)
class BenchmarkSource(BenchmarkSpec):
    """A benchmark with the functions that read its images.

    `load` reads one part: uint8 images `(n, c, h, w)` or images on disk, and int64 labels `(n,)`. `transforms` returns
    the transforms of training and of evaluation batches for a backbone.
    """

    load: Callable[[SplitName], tuple[Tensor | StoredImages, Tensor]] = field(repr=False)
    transforms: Callable[[InputSpec], tuple[Transform, Transform]] = field(repr=False)

    @property
    def spec(self) -> BenchmarkSpec:
        """The specification alone, without a reference to images."""
        return BenchmarkSpec(**{each.name: getattr(self, each.name) for each in fields(BenchmarkSpec)})


@dataclass(frozen=True)
class Task:
    """One task of the sequence: training images, and no evaluation images.

    Attributes:
        index: The number t of the task, from 1.
        classes: Its classes, consecutive positions in the class order.
        train: Its images under the training transform.
        unaugmented: The same images under the evaluation transform.
    """

    index: int
    classes: range
    train: ImageSet
    unaugmented: ImageSet

    @property
    def rows(self) -> slice:
        """The task's rows in a classifier with rows in class order."""
        return slice(self.classes.start, self.classes.stop)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark with its images, for one purpose."""

    spec: BenchmarkSpec
    purpose: Purpose
    split_seed: int  # of the validation split; the same for every trial of a search
    tasks: tuple[Task, ...]  # the only part that methods receive
    evaluation: tuple[ImageSet, ...]  # by task: validation images in a search, test images in a final run
    fingerprint: str  # digest of all that training sees: images, labels, split, transforms, task sizes
    evaluation_fingerprint: str  # the same of images and labels to evaluate on

    @property
    def metrics(self) -> MetricNames:
        """Names of the accuracies on the evaluation images."""
        return names_of(self.purpose)

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of images to train and to evaluate on, of all tasks: the same for each split seed and class order."""
        return sum(len(task.train) for task in self.tasks), sum(map(len, self.evaluation))

    def merged(self) -> Task:
        """Return all tasks as one, for joint training."""
        train = concatenate([task.train for task in self.tasks])
        unaugmented = replace(train, transform=self.tasks[0].unaugmented.transform)
        return Task(1, range(len(self.spec.class_names)), train, unaugmented)


def build_benchmark(
    source: BenchmarkSource, purpose: Purpose, split_seed: int = 0, reads: InputSpec | None = None
) -> Benchmark:
    """Return a benchmark with the images of one purpose, for the input `reads` of a backbone (by default its own)."""
    spec = source.spec
    stored, labels = source.load("train")
    train_rows, eval_stored, eval_labels = torch.arange(len(labels)), stored, labels
    if purpose == "search":
        train_rows, eval_rows = stratified_split(labels, VALIDATION_SHARE, split_seed)
    else:
        eval_stored, eval_labels = source.load("test")
        eval_rows = torch.arange(len(eval_labels))
    images, labels = select(stored, train_rows), labels[train_rows]
    eval_images, eval_labels = select(eval_stored, eval_rows), eval_labels[eval_rows]
    _require_examples(spec, labels, eval_labels, purpose)
    train_transform, eval_transform = source.transforms(reads or Backbone(spec.backbone).input)
    training = ImageSet(images, labels, train_transform)
    evaluated = ImageSet(eval_images, eval_labels, eval_transform)
    tasks, evaluation = [], []
    for index, classes in enumerate(spec.task_classes, start=1):
        train = of_classes(training, classes)
        tasks.append(Task(index, classes, train, replace(train, transform=eval_transform)))
        evaluation.append(of_classes(evaluated, classes))
    seen = _fingerprint(spec, [task.train for task in tasks], stored, train_rows, transforms=True)
    seen_later = _fingerprint(spec, evaluation, eval_stored, eval_rows, transforms=False)
    return Benchmark(spec, purpose, split_seed, tuple(tasks), tuple(evaluation), seen, seen_later)


def require_counts(
    run: str,
    began_with: tuple[int, int],
    now: tuple[int, int],
    where: str = "",
    otherwise: str = "make a new run",
    *,
    same_split: bool = True,
) -> None:
    """Refuse other `Benchmark.counts` than a run began with: of more images, some that it learned would be tested.

    Raises:
        OtherImagesError: If one differs, or not all classes have the `same_split`. `where` stands before the fault, and
            `otherwise` says what to do where the images cannot be brought back.
    """
    counts = zip(("train", "evaluation"), began_with, now, strict=True)
    faults = [f"data.{name} was {was} images, is now {got}" for name, was, got in counts if was != got]
    if not same_split:
        faults.append("data: an image was added, deleted, or moved to another class")
    if faults:
        raise OtherImagesError(
            f"run {run!r}: {where}{faults[0]}; bring back the images that it began with, or {otherwise}"
        )


def _require_examples(spec: BenchmarkSpec, labels: Tensor, eval_labels: Tensor, purpose: Purpose) -> None:
    counts = torch.bincount(labels, minlength=len(spec.class_names))
    if int(counts.min()) < 2:
        name = spec.class_names[int(counts.argmin())]
        beside = " beside those that validate" if purpose == "search" else ""
        raise InputError(
            f"benchmark {spec.name!r}: class {name!r} has {int(counts.min())} training images{beside}, needs 2"
        )
    counts = torch.bincount(eval_labels, minlength=len(spec.class_names))
    if int(counts.min()) == 0:
        raise InputError(
            f"benchmark {spec.name!r}: class {spec.class_names[int(counts.argmin())]!r} has no image to evaluate on"
        )


def _fingerprint(
    spec: BenchmarkSpec,
    sets: Sequence[ImageSet],
    stored: Tensor | StoredImages,
    rows: Tensor,
    *,
    transforms: bool,
) -> str:
    """Return the digest of the images of all tasks, with labels and perhaps transforms, 64 hexadecimal digits.

    Images on disk count by the digest of their part and their rows, so that none is read. `rows` are the rows of
    `stored` that the sets are made of, int64 `(n,)`.
    """
    digest = hashlib.sha256()
    if spec.left_out:  # rows count among those that are left, but the digest of images on disk is that of all
        digest.update(repr(spec.left_out).encode())
    for index, (classes, images) in enumerate(zip(spec.task_classes, sets, strict=True), start=1):
        what: object
        if isinstance(images.images, Tensor):
            what, content = images.images.shape, images.images
        else:
            assert not isinstance(stored, Tensor)
            what, content = stored.digest, rows[images.images.rows]
        transform = repeatable_text(images.transform) if transforms else ""
        digest.update(f"({index}, {classes}, {what!r}, {transform})".encode())
        digest.update(content.numpy().tobytes())
        digest.update(images.labels.numpy().tobytes())
    return digest.hexdigest()
