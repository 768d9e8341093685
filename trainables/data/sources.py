"""From the name of a benchmark to its source, with defaults for the user's own images, which may be few.

Training needs steps, not epochs. With the paper's batches of 128, a task of a hundred images has one step per epoch;
after so few steps the model keeps only the last task.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from checked_input.names import choices, counted
from trainables.data.benchmark import BenchmarkSource
from trainables.data.dataset import dataset_of, on_disk, require_options
from trainables.data.disk.listing import Rows
from trainables.data.embedded import BENCHMARKS
from trainables.data.few_images import OwnImages, Unsuited
from trainables.data.from_module import source_in_code
from trainables.data.published import PAPER_BACKBONE, PAPER_BATCH, PUBLISHED
from trainables.data.reference import FOLDER, PARQUET, BenchmarkRef
from trainables.data.splits import SplitName
from trainables.data.transforms.recipes import Recipe
from trainables.errors import InputError, NoTasksError
from trainables.task_names import NamedTask, require_known
from trainables.user_code import BY_CODE, installed, is_code

STEPS = 300  # fewest of a task; the paper's benchmarks have between 25 (MIT-67) and 780 (CIFAR-100)
EPOCHS = 5  # fewest for any number of images
_SMALLEST_BATCH, _BATCHES = 8, 8


def batch_size_of(images: int) -> int:
    """Return the largest power of two that divides a task's images into eight batches; between 8 and 128."""
    return min(PAPER_BATCH, max(_SMALLEST_BATCH, 1 << max(images // _BATCHES, 1).bit_length() - 1))


def steps_of(images: int, batch_size: int) -> int:
    """Return the number of batches in an epoch, at least 1."""
    return max(1, -(-images // batch_size))


def epochs_of(steps: int, least: int = EPOCHS, wanted: int = STEPS) -> int:
    """Return the number of epochs for `wanted` steps, from the steps per epoch; at least `least`."""
    return max(least, -(-wanted // steps))


def unsuited_pace(ref: BenchmarkRef, images: OwnImages) -> Iterator[Unsuited]:
    """Say whether the usual batch and epochs suit few images in files; a benchmark in code has its own."""
    if ref.path is None:
        return
    if images.batch_size < PAPER_BATCH:
        steps = steps_of(images.task, PAPER_BATCH)
        epoch = f"{counted(steps, 'step')} an epoch"
        reason = f"{PAPER_BATCH} would make {epoch} of the {images.task} images of a task"
        yield Unsuited("batch size", reason, f"{images.batch_size} is used")
    wanted = epochs_of(images.steps)
    if wanted > EPOCHS:
        few = ref.epochs is not None and ref.epochs < wanted
        epochs = images.epochs if few else EPOCHS
        reason = f"{epochs} would make {epochs * images.steps} steps a task, after which little but the last is kept"
        yield Unsuited(
            "epochs", reason, f"search --epochs {wanted} makes {STEPS}" if few else f"{images.epochs} are used"
        )


def reference(text: str) -> BenchmarkRef:
    """Return the reference of a benchmark without a look at the disk; a wrong name or option is an InputError."""
    ref = BenchmarkRef.parse(text)
    if not (ref.name in BENCHMARKS or on_disk(ref) or ref.in_code):
        is_folder = os.path.isdir(ref.name)  # the name may be too long for `Path.is_dir`
        known = (*BENCHMARKS, *PUBLISHED, *installed("benchmark"))
        allowed = choices("" if is_folder else ref.name, known, f"{FOLDER}PATH", f"{PARQUET}PATH", BY_CODE)
        meant = f"; did you mean {FOLDER}{text}?" if is_folder else ""
        raise InputError(f"unknown benchmark {ref.name!r}; {allowed}{meant}")
    return ref


def split_references(text: str) -> tuple[str, ...]:
    """Return the texts of the benchmarks in a text with commas between them.

    A comma belongs to a reference where it separates classes or the reference alone is right, as in
    `digits?class_order=3,1,2`; and a folder may have one in its name. In `digits?class_order=3,letters`, 3 is a seed.
    """
    name, question, _ = text.partition("?")
    folder = name if _is_folder(name) else ""
    first, *pieces = text.removeprefix(folder).split(",")
    found = [f"{folder}{first}"]
    for piece in pieces:
        if ("?" in found[-1] or BenchmarkRef.parse(found[-1]).path is not None) and not _begins(piece):
            found[-1] += f",{piece}"
        else:
            found.append(piece)
    if not question or ("," in name and not folder):
        return tuple(found)
    seeded = all(map(_is_right, found)) and isinstance(reference(found[0]).class_order, int)  # a seed, not a class
    return (text,) if not seeded and _is_right(text) else tuple(found)


def references(text: str) -> tuple[BenchmarkRef, ...]:
    """Return the references of the benchmarks in a text with commas between them; for errors see `reference`."""
    return tuple(map(reference, split_references(text)))


def _is_right(text: str) -> bool:
    try:
        reference(text)
    except InputError:
        return False
    return True


def _is_folder(name: str) -> bool:
    return name.startswith((FOLDER, PARQUET)) and os.path.exists(os.path.expanduser(name.partition(":")[2]))


def _begins(piece: str) -> bool:
    """Whether a text between commas begins another benchmark."""
    name = piece.partition("?")[0]
    known = name in BENCHMARKS or name in PUBLISHED or name in installed("benchmark")
    return known or name.startswith((FOLDER, PARQUET)) or is_code(name)


def get_source(text: str, data_root: str | Path | None = None) -> BenchmarkSource:
    """Return the source of a benchmark, of which `text` is the reference; files on disk are listed, not read."""
    ref = reference(text)
    require_options(ref)
    if ref.in_code:
        source = source_in_code(ref.name, ours=(*BENCHMARKS, *PUBLISHED))
    else:
        source = _from_disk(ref, data_root) if on_disk(ref) else BENCHMARKS[ref.name]
    source = _with_options(source, ref)
    if ref.path is None:
        return source
    images = images_per_task(source)
    batch_size = batch_size_of(images) if ref.batch_size is None else ref.batch_size
    epochs = epochs_of(steps_of(images, batch_size)) if ref.epochs is None else ref.epochs
    return replace(source, batch_size=batch_size, epochs=epochs)


def _from_disk(ref: BenchmarkRef, data_root: str | Path | None) -> BenchmarkSource:
    listing = dataset_of(ref, data_root).listing()  # first: a missing dataset matters more than missing tasks
    if ref.path is not None and ref.tasks is None and ref.classes_per_task is None and ref.task is None:
        raise NoTasksError(
            f"benchmark {ref.name!r}: needs --tasks, --classes-per-task or --task (in Python tasks=), or ?tasks=2 in"
            " its name"
        )
    publication = PUBLISHED.get(ref.name)
    return BenchmarkSource(
        name=ref.name,
        class_names=listing.class_names,
        num_tasks=1 if publication is None else publication.tasks,
        epochs=EPOCHS if publication is None else publication.epochs,
        batch_size=PAPER_BATCH,
        backbone=PAPER_BACKBONE,
        load=listing.load,
        transforms=Recipe(test_keep_ratio=True) if publication is None else publication.recipe,
    )


def _with_options(source: BenchmarkSource, ref: BenchmarkRef) -> BenchmarkSource:
    """Replace the benchmark's tasks, epochs and class order by those of the reference."""
    changes: dict[str, object] = {"name": str(ref)}
    count = len(source.class_names)
    tasks = ref.tasks if ref.classes_per_task is None else -(-count // ref.classes_per_task)
    if tasks is not None:
        if tasks > count // 2:
            asked = "--tasks" if ref.tasks is not None else "--classes-per-task"
            raise InputError(
                f"benchmark {ref.name!r}: {asked} makes {counted(tasks, 'task')} of {counted(count, 'class')};"
                f" a task needs at least 2 classes, so at most {counted(count // 2, 'task')}"
            )
        changes |= {"num_tasks": tasks, "sizes": (), "task_names": ()}
    if ref.epochs is not None:
        changes["epochs"] = ref.epochs
    if ref.batch_size is not None:
        changes["batch_size"] = ref.batch_size
    if ref.task is not None:
        changes |= _grouped(source, ref, ref.task)
    elif isinstance(ref.class_order, tuple):
        where = f"benchmark {ref.name!r}: class_order"
        changes |= _ordered(source, require_known(where, ref.class_order, source.class_names, all_of_them=True))
    elif ref.class_order is not None:
        # Drawn as in the authors' code, so that a seed means the same order there and here.
        place = np.random.RandomState(ref.class_order).permutation(count)
        names = dict(zip(place.tolist(), source.class_names, strict=True))
        changes["class_names"] = tuple(names[position] for position in range(count))
        changes["load"] = partial(_relabelled, source.load, torch.from_numpy(place.astype("int64")))
    if ref.task is None and changes.get("class_names", source.class_names) != source.class_names:
        changes["task_names"] = ()  # they name the classes of the benchmark's own order
    return replace(source, **changes)  # type: ignore[arg-type]  # mypy cannot see the keys


def _grouped(source: BenchmarkSource, ref: BenchmarkRef, tasks: Sequence[NamedTask]) -> dict[str, object]:
    """Return the changes that make explicit tasks; images of classes in no task are left out."""
    order = tuple(name for task in tasks for name in task.classes)
    order = require_known(f"benchmark {ref.name!r}: task", order, source.class_names, all_of_them=False)
    return {
        **_ordered(source, order),
        "num_tasks": len(tasks),
        "sizes": tuple(len(task.classes) for task in tasks),
        "task_names": tuple(task.name for task in tasks),
        "left_out": tuple(name for name in source.class_names if name not in order),
    }


def _ordered(source: BenchmarkSource, order: Sequence[str]) -> dict[str, object]:
    position = {name: place for place, name in enumerate(order)}
    place = torch.tensor([position.get(name, -1) for name in source.class_names])
    return {"class_names": tuple(order), "load": partial(_relabelled, source.load, place)}


def images_per_task(source: BenchmarkSource) -> int:
    """Return the mean number of training images of a task, including those that a search holds out."""
    return len(source.load("train")[1]) // source.num_tasks


def _relabelled(load: Callable[[SplitName], Rows], place: torch.Tensor, part: SplitName) -> Rows:
    images, labels = load(part)
    labels = place[labels]
    if int(place.min()) >= 0:
        return images, labels
    kept = (labels >= 0).nonzero().flatten()
    return images[kept] if isinstance(images, torch.Tensor) else images.take(kept), labels[kept]
