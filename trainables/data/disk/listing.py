"""The classes of a dataset and the images of each part, and the split of a dataset that has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
"""Images and their labels, int64 `(n,)`."""

FileRows = tuple[ImageFiles, Tensor]

TEST_SHARE = 0.2
_TEST_SEED = 0  # fixed: the test split is part of the benchmark, not of an experiment


@dataclass(frozen=True)
class Listing:
    """The content of a dataset's folder."""

    class_names: tuple[str, ...]  # in label order
    parts: Mapping[Part, Callable[[], Rows]]  # each function lists the images of its part and reads none
    layout: str  # in a few words


Splitter = Callable[[Tensor], dict[Part, Tensor]]
"""From labels, int64 `(n,)`, to the ascending row numbers of each part."""


def seeded_split(labels: Tensor, per_class: int | None = None) -> dict[Part, Tensor]:
    """Split each class by a fixed seed, as a `Splitter`.

    `per_class` examples of each class train; by default 80 %, rounded down.

    Returns:
        Row numbers of each part, ascending.
    """
    if per_class is None:
        train, test = stratified_split(labels, TEST_SHARE, _TEST_SEED)
    else:
        train, test = split_per_class(labels, lambda count: max(1, count - per_class), _TEST_SEED)
    return {"train": train, "test": test}


def split_files(files: FileRows, split: Splitter = seeded_split) -> dict[Part, Callable[[], Rows]]:
    """Return the parts of files without a split of their own."""
    images, labels = files
    rows = split(labels)

    def chosen(part: Part) -> Rows:
        return images.take(rows[part]), labels[rows[part]]

    return {part: partial(chosen, part) for part in PARTS}


def listed_files(train: FileRows, test: FileRows) -> dict[Part, Callable[[], Rows]]:
    """Return the parts of files with a split of their own."""
    return {"train": lambda: train, "test": lambda: test}


def labelled_files(rows: Iterable[tuple[str, Entry, int]]) -> FileRows:
    """Return images and labels from the path, the entry and the label of each image."""
    found = list(rows)
    images = ImageFiles(tuple(path for path, _, _ in found), tuple(entry for _, entry, _ in found))
    return images, torch.tensor([label for _, _, label in found], dtype=torch.int64)


def in_class_folders(files: Mapping[str, Entry], class_names: Sequence[str], *, where: str = "") -> FileRows:
    """Return the images directly in class folders, in order of class and name.

    Args:
        files: Files by their path below the folder that holds the class folders.
        class_names: Names of the class folders, in label order.
        where: Text before each path in error messages.
    """
    label = {name: number for number, name in enumerate(class_names)}
    found = []
    for path, entry in files.items():
        folder, _, name = path.partition("/")
        if folder in label and "/" not in name and is_image(name):
            found.append((f"{where}{path}", entry, label[folder]))
    found.sort(key=lambda row: (row[2], row[0]))
    return labelled_files(found)


def from_split_file(
    files: Mapping[str, Entry], paths: Sequence[str], labels: Sequence[int], *, split_file: str
) -> FileRows:
    """Return the images of a split file, in its order, with their labels.

    Args:
        files: Files by their path as in the split file.
        paths: Paths in the split file.
        labels: Labels in the split file.
        split_file: Name of the split file in error messages.

    Raises:
        InputError: If an image is missing, or the numbers of labels and images differ.
    """
    if len(paths) != len(labels):
        raise InputError(f"{split_file}: has {len(paths)} images but {len(labels)} labels")
    missing = [path for path in paths if path not in files]
    if missing:
        raise InputError(f"{split_file}: {len(missing)} of {len(paths)} images are not there, first {missing[0]}")
    return labelled_files((path, files[path], label) for path, label in zip(paths, labels, strict=True))


def is_image(path: str) -> bool:
    """Whether the name of a file ends as an image's."""
    return PurePosixPath(path).suffix.lower() in SUFFIXES
