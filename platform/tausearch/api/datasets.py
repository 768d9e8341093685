"""The datasets of benchmarks: their state on disk, a check of every image, and their prepared form."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from checked_input.text_files import escaped
from tausearch.presentation import LongWork
from trainables.data import BENCHMARKS, PUBLISHED, BenchmarkRef, get_source, reference
from trainables.data.dataset import Dataset, NotFoundError, dataset_of, on_disk
from trainables.data.disk.listing import ImageFiles, Rows
from trainables.data.disk.manifest import PREPARED_FORMS, Manifest, PreparedForm, changed_files
from trainables.data.disk.passes import sizes_or_faults, stored
from trainables.data.splits import SPLIT_NAMES, SplitName
from trainables.errors import InputError


@dataclass(frozen=True)
class DataState:
    """The state of a benchmark's data."""

    name: str
    state: str  # "embedded", "whole", "not found", or the fault of the data in words
    whole: bool  # whether the data is complete, so that it can be used
    home: str | None = None  # folder that should hold the data
    layout: str | None = None
    prepared: str | None = None  # folder of the data's prepared form, if there is one
    classes: dict[str, dict[str, int]] | None = None  # class to its number of images in each part, in label order
    looks_for: str | None = None  # the layouts that are recognised
    source: str | None = None  # address from which to get the data

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form, with the sums of the counts."""
        return {**asdict(self), "images": self.images}

    @property
    def images(self) -> dict[str, int] | None:
        """Number of images of each part."""
        if self.classes is None:
            return None
        return {part: sum(counts[part] for counts in self.classes.values()) for part in SPLIT_NAMES}

    def count(self, part: SplitName) -> str:
        """Return the number of images of a part as text, with those of the smallest and the largest class."""
        if self.classes is None:
            return ""
        each = [counts[part] for counts in self.classes.values()]
        return f"{sum(each):,} ({min(each)}{'' if min(each) == max(each) else f' to {max(each)}'})"


@dataclass
class CheckedClass:
    """The images of a class, as a check has read them."""

    train: int = 0  # training images, unreadable ones included
    test: int = 0  # test images, unreadable ones included
    unreadable: int = 0  # how many of both cannot be read
    smallest: tuple[int, int] | None = None  # width and height of that with the fewest pixels; None: all unreadable
    largest: tuple[int, int] | None = None  # width and height of that with the most pixels

    def add(self, part: SplitName, look: tuple[int, int] | str) -> None:
        """Add an image: its width and height, or why it cannot be read."""
        setattr(self, part, getattr(self, part) + 1)
        if isinstance(look, str):
            self.unreadable += 1
            return
        self.smallest = min(self.smallest or look, look, key=math.prod)
        self.largest = max(self.largest or look, look, key=math.prod)


@dataclass(frozen=True)
class CheckResult:
    """The result of a check of all images."""

    name: str
    home: str  # folder that holds the benchmark's data
    layout: str
    images: int  # number of images, unreadable ones included
    faults: list[str]  # a line for each image that is unreadable or in both parts, and for each changed prepared file
    repeated: list[str]  # a line for each image that is listed more than once in one part, and counts so often
    left_out: list[str]  # a line for each unreadable image that the benchmark's name leaves out (`skip_broken`)
    classes: dict[str, CheckedClass]  # by name, in label order


def dataset_states(root: str | None) -> list[DataState]:
    """Return the state of every benchmark that has a name."""
    return [_embedded(name) for name in BENCHMARKS] + [
        _state(dataset_of(BenchmarkRef(name=name), root)) for name in PUBLISHED
    ]


def _embedded(name: str) -> DataState:
    source = get_source(name)
    return DataState(name, "embedded", True, classes=_counts(source.class_names, source.load))


def _state(dataset: Dataset) -> DataState:
    publication = PUBLISHED.get(dataset.ref.name)
    state = DataState(
        str(dataset.ref),
        "whole",
        True,
        home=str(dataset.home),
        looks_for=None if publication is None else publication.looks_for,
        source=None if publication is None else publication.source,
    )
    try:
        listing = dataset.unchecked()
        state = replace(state, layout=listing.layout, classes=_counts(listing.class_names, listing.load))
        if dataset.manifest() is not None:
            state = replace(state, prepared=str(dataset.prepared))
        checked = dataset.checked(listing)
        dataset.both_parts(checked)
    except NotFoundError:
        return replace(state, state="not found", whole=False)
    except InputError as error:
        return replace(state, state=re.sub(r"^benchmark '[^']*'( in [^:]*)?: ", "", str(error)), whole=False)
    return state


def _counts(classes: Sequence[str], load: Callable[[SplitName], Rows]) -> dict[str, dict[str, int]]:
    """Return the number of images of each class in each part."""
    rows = {part: torch.bincount(load(part)[1], minlength=len(classes)).tolist() for part in SPLIT_NAMES}
    return {name: {part: rows[part][label] for part in SPLIT_NAMES} for label, name in enumerate(classes)}


def check_dataset(text: str, root: str | None, variant: str | None, partial: bool) -> CheckResult:
    """Return the result of reading every image of a benchmark's dataset once; the dataset must be whole."""
    dataset = _dataset(text, root, variant, partial)
    if (manifest := dataset.manifest()) is None:
        dataset.look_again(dataset.find())
    listing = dataset.listing()
    parts = dataset.both_parts(listing)
    faults, repeated = _listed_again(parts)
    if manifest is not None:
        changed = (name for name, is_changed in changed_files(dataset.prepared, manifest) if is_changed)
        faults += [f"prepared file {dataset.prepared / name}: has changed since it was written" for name in changed]
        faults += dataset.faults_of_source(manifest)
    classes = {name: CheckedClass() for name in listing.class_names}
    with LongWork() as work:
        left_out = dataset.left_out(work.start)
        for part in SPLIT_NAMES:
            images, labels = parts[part]
            looks = sizes_or_faults(images, work.start(f"reading {part} images", len(images)))
            for look, label in zip(looks, labels.tolist(), strict=True):
                classes[listing.class_names[label]].add(part, look)
                faults += [look] if isinstance(look, str) else []
    if manifest is not None and not dataset.ref.skip_broken:
        for part, label in _lacking(dataset, manifest, parts):
            classes[listing.class_names[label]].add(part, "cannot be read")
    count = sum(each.train + each.test for each in classes.values())
    return CheckResult(str(dataset.ref), str(dataset.home), listing.layout, count, faults, repeated, left_out, classes)


def _listed_again(parts: Mapping[SplitName, Rows]) -> tuple[list[str], list[str]]:
    """Return a line for each image file that is in both parts, and for each that is in one of them more than once."""
    listed = {part: Counter(images.names) for part, (images, _) in parts.items() if isinstance(images, ImageFiles)}
    again = {name: count for name, count in sum(listed.values(), Counter()).items() if count > 1}
    where = {name: " and ".join(part for part in listed if name in listed[part]) for name in again}
    lines = {name: escaped(f"image {name}: is listed {again[name]} times, in {where[name]}") for name in again}
    both = [name for name in again if " and " in where[name]]
    return [lines.pop(name) for name in both], list(lines.values())


def _lacking(dataset: Dataset, manifest: Manifest, parts: Mapping[SplitName, Rows]) -> Iterator[tuple[SplitName, int]]:
    """Yield part and label of each unreadable image that a prepared form lacks, if its source has not changed.

    The form keeps a line for each such image, but not its class.
    """
    if not (lines := manifest.left_out(SPLIT_NAMES)) or dataset.faults_of_source(manifest) != lines:
        return
    with suppress(InputError):  # the files are removed
        published = dataset.find()
        for part, (_, labels) in parts.items():
            lacking = torch.bincount(published.load(part)[1]) - torch.bincount(labels)
            for label, count in enumerate(lacking.tolist()):
                yield from [(part, label)] * count


@dataclass(frozen=True)
class ListedImage:
    """An image of a dataset, by its path or its place in a file, with its class and the part that it belongs to."""

    image: str
    class_name: str
    split: SplitName

    def as_dict(self) -> dict[str, str]:
        """Return the plain form."""
        return {"image": self.image, "class": self.class_name, "split": self.split}


def list_images(
    text: str, root: str | None, variant: str | None, partial: bool, parts: Sequence[SplitName] = SPLIT_NAMES
) -> list[ListedImage]:
    """Return the images of a benchmark's dataset in the order and with the split of runs; none is decoded.

    The validation images of a search are part of "train". Prepared images are listed as they lie in the dataset's own
    files, where these are still there.
    """
    dataset = _dataset(text, root, variant, partial)
    try:
        listing = dataset.checked(dataset.find())
    except InputError:
        listing = dataset.listing()  # prepared, and the files are removed or still packed
    found = []
    for part in parts:
        images, labels = listing.load(part)
        named = stored(images)
        found += [
            ListedImage(named.name(row), listing.class_names[label], part) for row, label in enumerate(labels.tolist())
        ]
    return found


def prepare_dataset(
    text: str, root: str | None, variant: str | None, partial: bool, form: str
) -> tuple[DataState, bool]:
    """Convert a benchmark's dataset to the tool's own form, also where it has one.

    Returns:
        The state after it, and whether an earlier prepared form was replaced.

    Raises:
        InputError: If `form` is unknown, or the dataset cannot be found or converted.
    """
    chosen: PreparedForm | None = next((known for known in PREPARED_FORMS if known == form), None)
    if chosen is None and form != "auto":
        raise InputError(f"--layout must be auto, {' or '.join(PREPARED_FORMS)}, got {form!r}")
    dataset = _dataset(text, root, variant, partial)
    replaced = dataset.prepared.exists()
    with LongWork() as work:
        dataset.prepare(chosen, work.start)
    return _state(dataset), replaced


def _dataset(text: str, root: str | None, variant: str | None, partial: bool) -> Dataset:
    ref = reference(text)
    ref.require_said_once(variant=variant)
    ref = ref.with_options(variant=variant, partial=partial or None)
    if not on_disk(ref):
        raise InputError(f"benchmark {ref.name!r}: is made in memory; there is nothing on disk")
    return dataset_of(ref, root)
