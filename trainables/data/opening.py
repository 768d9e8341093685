"""From what a benchmark is called to the means to read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch

from trainables.data.benchmark import BenchmarkSource
from trainables.data.dataset import dataset_of
from trainables.data.disk.listing import Rows
from trainables.data.embedded import BENCHMARKS
from trainables.data.few import EPOCHS, batch_size_of, epochs_of, steps_of
from trainables.data.from_module import source_from_module
from trainables.data.parts import Part
from trainables.data.published import PAPER_BACKBONE, PAPER_BATCH, PUBLISHED
from trainables.data.reference import FOLDER, PARQUET, BenchmarkRef
from trainables.data.transforms.recipes import Recipe
from trainables.errors import InputError


def reference(text: str) -> BenchmarkRef:
    """Read what a benchmark is called and make sure that there is one; nothing on disk is looked at.

    Returns:
        The reference to the benchmark, with paths made absolute.

    Raises:
        InputError: If there is no benchmark of that name, or an option is wrong.
    """
    ref = BenchmarkRef.parse(text)
    if not (ref.name in BENCHMARKS or on_disk(ref) or ref.is_module):
        known = ", ".join((*BENCHMARKS, *PUBLISHED))
        meant = f"; did you mean {FOLDER}{text}?" if Path(ref.name).is_dir() else ""
        raise InputError(
            f"unknown benchmark {ref.name!r}; allowed: {known}, {FOLDER}PATH, {PARQUET}PATH, MODULE:NAME{meant}"
        )
    return ref


def on_disk(ref: BenchmarkRef) -> bool:
    """Whether a benchmark's images lie on disk."""
    return ref.name in PUBLISHED or ref.path is not None


def get_source(text: str, data_root: str | Path | None = None) -> BenchmarkSource:
    """Look a benchmark up by what it is called.

    Args:
        text: What the benchmark is called, as `BenchmarkRef` reads it.
        data_root: Folder of the published datasets; see `dataset.data_root`.

    Returns:
        The benchmark's specification with the means to read it. Of a dataset on disk the files have been listed, none
            read.

    Raises:
        InputError: If there is no benchmark of that name, an option is wrong, or its dataset is not on disk or not
            whole.
    """
    ref = reference(text)
    if on_disk(ref):
        source = _from_disk(ref, data_root)
    elif ref.variant is not None or ref.partial:
        raise InputError(f"benchmark {text!r}: variant and partial are for published datasets")
    elif ref.label_column is not None:
        raise InputError(f"benchmark {text!r}: label_column is for Parquet files")
    elif ref.skip_broken:
        raise InputError(f"benchmark {text!r}: skip_broken is for images on disk")
    else:
        source = BENCHMARKS[ref.name] if ref.name in BENCHMARKS else source_from_module(ref.name)
    asked = _as_asked(source, ref)
    return asked if ref.path is None else _paced(asked, ref)


def _from_disk(ref: BenchmarkRef, data_root: str | Path | None) -> BenchmarkSource:
    listing = dataset_of(ref, data_root).listing()  # first: what is not there needs no tasks
    if ref.path is not None and ref.tasks is None and ref.classes_per_task is None:
        raise InputError(
            f"benchmark {ref.name!r}: needs --tasks or --classes-per-task (in Python tasks=), or ?tasks=2 in its name"
        )
    publication = PUBLISHED.get(ref.name)
    return BenchmarkSource(
        name=ref.name,
        class_names=listing.class_names,
        num_tasks=1 if publication is None else publication.tasks,
        epochs=EPOCHS if publication is None else publication.epochs,
        batch_size=PAPER_BATCH,
        backbone=PAPER_BACKBONE,
        load=cache(lambda part: listing.parts[part]()),  # is asked for the number of images first
        transforms=Recipe(test_keep_ratio=True) if publication is None else publication.recipe,
    )


def _as_asked(source: BenchmarkSource, ref: BenchmarkRef) -> BenchmarkSource:
    """Put what the reference says in place of the benchmark's own tasks, epochs and class order."""
    changes: dict[str, object] = {"name": str(ref)}
    count = len(source.class_names)
    tasks = ref.tasks if ref.classes_per_task is None else -(-count // ref.classes_per_task)
    if tasks is not None:
        if tasks > count // 2:
            asked = "--tasks" if ref.tasks is not None else "--classes-per-task"
            raise InputError(
                f"benchmark {ref.name!r}: {asked} makes {tasks} tasks of {count} classes; a task needs at least 2"
                f" classes, so at most {count // 2} task{'s' * (count > 3)}"
            )
        changes["num_tasks"] = tasks
    if ref.epochs is not None:
        changes["epochs"] = ref.epochs
    if ref.class_order is not None:
        # The order is drawn as the authors' code draws it, so that a seed means the same order there and here.
        place = np.random.RandomState(ref.class_order).permutation(count)
        names = dict(zip(place.tolist(), source.class_names, strict=True))
        changes["class_names"] = tuple(names[position] for position in range(count))
        changes["load"] = _relabelled(source.load, torch.from_numpy(place.astype("int64")))
    return replace(source, **changes)  # type: ignore[arg-type]  # mypy cannot see the keys


def _paced(source: BenchmarkSource, ref: BenchmarkRef) -> BenchmarkSource:
    """Put batch size and epochs that suit the number of images in place of the usual ones."""
    images = images_per_task(source)
    batch_size = batch_size_of(images)
    epochs = epochs_of(steps_of(images, batch_size)) if ref.epochs is None else ref.epochs
    return replace(source, batch_size=batch_size, epochs=epochs)


def images_per_task(source: BenchmarkSource) -> int:
    """Return how many training images a task has, on average; those that a search holds out are among them."""
    return len(source.load("train")[1]) // source.num_tasks


def _relabelled(load: Callable[[Part], Rows], place: torch.Tensor) -> Callable[[Part], Rows]:
    def rows(part: Part) -> Rows:
        images, labels = load(part)
        return images, place[labels]

    return rows
