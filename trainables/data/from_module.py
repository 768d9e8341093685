"""A benchmark in the user's code; its errors and results are checked before their use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from checked_input.names import counted
from checked_input.ranges import BATCH, EPOCHS, NumberRange
from trainables.backbones import InputSpec
from trainables.data.benchmark import Benchmark, BenchmarkSource
from trainables.data.disk.listing import Rows
from trainables.data.images import StoredImages
from trainables.data.splits import SplitName
from trainables.data.transforms.normalisation import Transform
from trainables.errors import InputError
from trainables.task_names import class_names_fault, task_names_fault
from trainables.user_code import called, explained, find

_OF_STORED = [name for name in vars(StoredImages) if name[0] != "_" or name == "__len__"]


def source_in_code(name: str, ours: Sequence[str] = ()) -> BenchmarkSource:
    """Return a benchmark of `MODULE:NAME` or of an installed package, which may claim none of the names `ours`."""
    found = find("benchmark", name, dict.fromkeys(ours), BenchmarkSource)
    assert isinstance(found, BenchmarkSource), "none of ours is in code"
    return checked_source(name, found)


def checked_source(name: str, source: BenchmarkSource) -> BenchmarkSource:
    """Return a benchmark whose functions check what they return; a wrong field is an InputError that names `name`."""
    _require_protocol(name, source)
    return replace(
        source, load=partial(_checked_load, name, source), transforms=partial(_checked_transforms, name, source)
    )


def require_fits(benchmark: Benchmark, reads: InputSpec) -> None:
    """Check that transforms give finite input of the backbone, and that other images evaluate than train."""
    name, task, evaluation = benchmark.spec.name, benchmark.tasks[0], benchmark.evaluation[0]
    generator, rows = torch.Generator().manual_seed(0), torch.arange(min(2, len(evaluation)))
    for images in (task.train, evaluation):
        try:
            made = images.prepare(images.pixels(rows), generator)
        except Exception as error:  # the transforms are the module's code
            raise InputError(f"benchmark {name!r}: transforms failed ({explained(error)})") from error
        shape = (len(rows), reads.channels, reads.size, reads.size)
        fits = isinstance(made, Tensor) and made.is_floating_point() and made.shape == shape
        if not fits or not bool(torch.isfinite(made).all()):
            got = f"{made.dtype} {tuple(made.shape)}" if isinstance(made, Tensor) else type(made).__name__
            raise InputError(
                f"benchmark {name!r}: transforms must give finite floats {shape} for the backbone, got {got}"
            )
    first, second = task.train.images, evaluation.images
    if isinstance(first, Tensor) and isinstance(second, Tensor) and torch.equal(first, second):
        raise InputError(f"benchmark {name!r}: load returns the same images for both parts")


def _require_protocol(name: str, source: BenchmarkSource) -> None:
    names = source.class_names
    problem = None
    if not isinstance(names, tuple) or len(names) < 2:
        problem = "class_names must be a tuple of at least 2 names"
    elif fault := class_names_fault(names):
        problem = f"class_names: {fault}"
    elif fault := NumberRange(1, len(names) // 2).fault(source.num_tasks):
        problem = f"num_tasks {fault}; a task needs 2 classes"
    elif not _are_numbers(source.sizes):
        problem = "sizes must be a tuple of whole numbers, the classes of each task"
    elif source.sizes and (
        len(source.sizes) != source.num_tasks or min(source.sizes) < 2 or sum(source.sizes) != len(names)
    ):
        tasks = counted(source.num_tasks, "task")
        problem = f"sizes must be the classes of {tasks}, at least 2 each and {len(names)} together"
    elif not isinstance(source.task_names, Sequence) or len(source.task_names) not in (0, source.num_tasks):
        problem = f"task_names must be {source.num_tasks}, one for each task"
    elif fault := task_names_fault(source.task_names):
        problem = f"task_names: {fault}"
    elif fault := EPOCHS.fault(source.epochs):
        problem = f"epochs {fault}"
    elif fault := BATCH.fault(source.batch_size):
        problem = f"batch_size {fault}"
    elif not callable(source.load) or not callable(source.transforms):
        problem = "load and transforms must be functions"
    elif not isinstance(source.backbone, str):
        problem = f"backbone must be a name, got {type(source.backbone).__name__}"
    if problem is not None:
        raise InputError(f"benchmark {name!r}: {problem}")


def _are_numbers(sizes: object) -> bool:
    return isinstance(sizes, Sequence) and all(isinstance(each, int) for each in sizes)


def _checked_load(name: str, source: BenchmarkSource, part: SplitName) -> Rows:
    what = f"benchmark {name!r}: load({part!r})"
    loaded = called(what, lambda: source.load(part))
    if problem := _problem(loaded, len(source.class_names)):
        raise InputError(f"{what} {problem}")
    return loaded


def _checked_transforms(name: str, source: BenchmarkSource, reads: InputSpec) -> tuple[Transform, Transform]:
    what = f"benchmark {name!r}: transforms"
    pair = called(what, lambda: source.transforms(reads))
    if not isinstance(pair, tuple) or len(pair) != 2 or not all(map(callable, pair)):
        raise InputError(f"{what} must return two functions, of training and test images, got {type(pair).__name__}")
    return pair


def _problem(loaded: object, classes: int) -> str | None:
    """Return the fault in one part of a dataset, or None."""
    if not isinstance(loaded, tuple) or len(loaded) != 2:
        return f"must return images and labels, got {type(loaded).__name__}"
    images, labels = loaded
    if isinstance(images, Tensor):
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3) or 0 in images.shape:
            got = f"{images.dtype} {tuple(images.shape)}"
            return f"must return uint8 images (n, c, h, w) with 1 or 3 channels, at least one, got {got}"
    elif lacking := [name for name in _OF_STORED if not hasattr(images, name)]:
        but = "" if "image" in lacking else f", which lacks {', '.join(lacking)} of `StoredImages`"
        return f"must return images as a tensor, got {type(images).__name__}{but}"
    if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.shape != (len(images),):
        got = f"{labels.dtype} {tuple(labels.shape)}" if isinstance(labels, Tensor) else type(labels).__name__
        return f"must return int64 labels ({len(images)},), one for each image, got {got}"
    if len(labels) == 0:
        return "must return at least one image"
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        return f"must return labels from 0 to {classes - 1}, got {int(labels.min())} to {int(labels.max())}"
    return None
