"""What a layout finds: the classes of a dataset and the images of each part; and the split where there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import torch
from torch import Tensor

from trainables.data.disk.decoding import SUFFIXES
from trainables.data.disk.files import ImageFiles
from trainables.data.disk.tree import Entry
from trainables.data.images import StoredImages
from trainables.data.parts import PARTS, Part
from trainables.data.splits import split_per_class, stratified_split
from trainables.errors import InputError

Rows = tuple[Tensor | StoredImages, Tensor]

TEST_SHARE = 0.2
_TEST_SEED = 0  # fixed: the test split is part of the benchmark, not of an experiment


@dataclass(frozen=True)
class Listing:
    """A dataset as it lies on disk.

    Attributes:
        class_names: Names of the classes, in label order.
        parts: For each part, the function that lists its images, not read yet, and their labels.
        layout: The layout that was found, in a few words.
    """

    class_names: tuple[str, ...]
    parts: Mapping[Part, Callable[[], Rows]]
    layout: str


@dataclass(frozen=True)
class LabelledFiles:
    """Image files and their labels.

    Attributes:
        names: Path of each image file.
        entries: File or member of an archive that each is read from.
        labels: The label of each image.
    """

    names: tuple[str, ...]
    entries: tuple[Entry, ...]
    labels: tuple[int, ...]

    def take(self, rows: Sequence[int] | None = None) -> Rows:
        """Return images and labels of some rows, or all; nothing in them leads to the other rows."""
        chosen = range(len(self.names)) if rows is None else rows
        images = ImageFiles(tuple(self.names[row] for row in chosen), tuple(self.entries[row] for row in chosen))
        return images, torch.tensor([self.labels[row] for row in chosen], dtype=torch.int64)


Splitter = Callable[[Tensor], dict[Part, Tensor]]


def seeded_split(labels: Tensor, per_class: int | None = None) -> dict[Part, Tensor]:
    """Split the rows of a dataset that has no split of its own, per class, always the same way.

    Args:
        labels: The label of each row, int64 `(n,)`.
        per_class: How many examples of each class to train on; by default 80 %, rounded down.

    Returns:
        Row numbers of each part, ascending.
    """
    if per_class is None:
        train, test = stratified_split(labels, TEST_SHARE, _TEST_SEED)
    else:
        train, test = split_per_class(labels, lambda count: max(1, count - per_class), _TEST_SEED)
    return {"train": train, "test": test}


def split_files(files: LabelledFiles, split: Splitter = seeded_split) -> dict[Part, Callable[[], Rows]]:
    """Return the parts of files that have no split of their own."""
    rows = split(torch.tensor(files.labels, dtype=torch.int64))
    return {part: _lister(files, rows[part].tolist()) for part in PARTS}


def listed_files(train: LabelledFiles, test: LabelledFiles) -> dict[Part, Callable[[], Rows]]:
    """Return the parts of files that come split."""
    return {"train": _lister(train), "test": _lister(test)}


def _lister(files: LabelledFiles, rows: Sequence[int] | None = None) -> Callable[[], Rows]:
    return lambda: files.take(rows)


def in_class_folders(files: Mapping[str, Entry], class_names: Sequence[str], *, where: str = "") -> LabelledFiles:
    """List the images that lie directly in class folders, in order of class and name.

    Args:
        files: Files by their path below the folder that holds the class folders.
        class_names: Names of the class folders, in label order.
        where: The text that error messages put before paths.

    Returns:
        The images with their labels.
    """
    label = {name: number for number, name in enumerate(class_names)}
    found = []
    for path, entry in files.items():
        folder, _, name = path.partition("/")
        if folder in label and "/" not in name and is_image(name):
            found.append((label[folder], path, entry))
    found.sort(key=lambda row: row[:2])
    return LabelledFiles(
        tuple(f"{where}{row[1]}" for row in found), tuple(row[2] for row in found), tuple(row[0] for row in found)
    )


def from_split_file(
    files: Mapping[str, Entry], paths: Sequence[str], labels: Sequence[int], *, split_file: str
) -> LabelledFiles:
    """Look up the images that a split file lists, in its order.

    Args:
        files: Files by their path as the split file writes it.
        paths: Paths of images that the split file lists.
        labels: Labels that the split file lists.
        split_file: What to call the split file in an error.

    Returns:
        The images with their labels.

    Raises:
        InputError: If an image is not there, or there are not as many labels as images.
    """
    if len(paths) != len(labels):
        raise InputError(f"{split_file}: has {len(paths)} images but {len(labels)} labels")
    missing = [path for path in paths if path not in files]
    if missing:
        raise InputError(f"{split_file}: {len(missing)} of {len(paths)} images are not there, first {missing[0]}")
    return LabelledFiles(tuple(paths), tuple(files[path] for path in paths), tuple(labels))


def is_image(path: str) -> bool:
    """Whether a file is an image by its name."""
    return PurePosixPath(path).suffix.lower() in SUFFIXES
