"""The classes of a dataset and the images of each part, and the split of a dataset that has none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath

import torch
from torch import Tensor

from trainables.data.disk.decoding import MOST_BYTES, SUFFIXES, decode, require_size
from trainables.data.disk.tree import Entry
from trainables.data.images import StoredImages
from trainables.data.splits import TEST_SEED, TEST_SHARE, SplitName, split_per_class, stratified_split
from trainables.errors import InputError

IF_MOVED = "; if the images of a run have moved, make a link to them here"  # a run has their absolute path

Rows = tuple[Tensor | StoredImages, Tensor]
"""Images and their labels, int64 `(n,)`."""

Splitter = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From labels, int64 `(n,)`, to the ascending row numbers of training and test."""


@dataclass(frozen=True)
class Listing:
    """The content of a dataset's folder."""

    class_names: tuple[str, ...]  # in label order
    load: Callable[[SplitName], Rows]  # lists the images of a part and reads none
    layout: str  # in a few words


@dataclass(frozen=True)
class ImageFiles:
    """Images of one file each, on disk or in an archive, decoded when they are read."""

    names: tuple[str, ...]  # paths
    entries: tuple[Entry, ...]
    most: int = MOST_BYTES  # bytes of an image file

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def digest(self) -> str:
        """Digest of paths, sizes and times of change; no file is read."""
        digest = hashlib.sha256()
        for name, entry in zip(self.names, self.entries, strict=True):
            digest.update(repr((name, entry.size, entry.modified)).encode())
        return digest.hexdigest()

    def name(self, row: int) -> str:
        """Return the path of an image."""
        return self.names[row]

    def encoded(self, row: int) -> bytes:
        """Return the content of an image file; a broken archive or a file above the bound is an InputError."""
        require_size(self.entries[row].size, self.names[row], self.most)
        try:
            return self.entries[row].read()
        except Exception as error:  # an archive may be cut short in many ways
            raise InputError(f"image {self.names[row]}: cannot be read ({error})") from error

    def image(self, row: int) -> Tensor:
        """Read one image; see `StoredImages`."""
        return decode(self.encoded(row), self.names[row])

    def take(self, rows: Tensor) -> ImageFiles:
        """Return the images of some rows alone; see `StoredImages`."""
        chosen = rows.tolist()
        names, entries = tuple(self.names[row] for row in chosen), tuple(self.entries[row] for row in chosen)
        return replace(self, names=names, entries=entries)


FileRows = tuple[ImageFiles, Tensor]


def seeded_split(labels: Tensor, per_class: int | None = None) -> tuple[Tensor, Tensor]:
    """Split each class by a fixed seed, as a `Splitter`: `per_class` examples train, by default 80 %, rounded down."""
    if per_class is None:
        return stratified_split(labels, TEST_SHARE, TEST_SEED)
    return split_per_class(labels, lambda count: max(1, count - per_class), TEST_SEED)


def split_files(files: FileRows, split: Splitter = seeded_split) -> Callable[[SplitName], Rows]:
    """Return the parts of files without a split of their own."""
    images, labels = files
    train, test = ((images.take(rows), labels[rows]) for rows in split(labels))
    return listed_files(train, test)


def listed_files(train: FileRows, test: FileRows) -> Callable[[SplitName], Rows]:
    """Return the parts of files with a split of their own."""
    return {"train": train, "test": test}.__getitem__


def labelled_files(rows: Iterable[tuple[str, Entry, int]]) -> FileRows:
    """Return images and labels from the path, the entry and the label of each image."""
    found = list(rows)
    images = ImageFiles(tuple(path for path, _, _ in found), tuple(entry for _, entry, _ in found))
    return images, torch.tensor([label for _, _, label in found], dtype=torch.int64)


def in_class_folders(files: Mapping[str, Entry], class_names: Sequence[str], *, where: str = "") -> FileRows:
    """Return the images directly in class folders, in order of class and name; names begin with `where`.

    `files` are by their path below the folder that holds the class folders, `class_names` in label order.
    """
    label = {name: number for number, name in enumerate(class_names)}
    found = []
    for path, entry in files.items():
        folder, _, name = path.partition("/")
        if folder in label and "/" not in name and is_image(name):
            found.append((f"{where}{path}", entry, label[folder]))
    return labelled_files(sorted(found, key=lambda row: (row[2], row[0])))


def from_split_file(
    files: Mapping[str, Entry], paths: Sequence[str], labels: Sequence[int], *, split_file: str
) -> FileRows:
    """Return the images of a split file in its order, from `files` by path; a missing image is an InputError."""
    if len(paths) != len(labels):
        raise InputError(f"{split_file}: has {len(paths)} images but {len(labels)} labels")
    require_listed(paths, files, split_file)
    return labelled_files((path, files[path], label) for path, label in zip(paths, labels, strict=True))


def require_listed(paths: Sequence[str], found: Mapping[str, object], where: str, place: str = "there") -> None:
    """Check that all listed images were found; a missing image is an InputError."""
    missing = [path for path in paths if path not in found]
    if missing:
        raise InputError(f"{where}: {len(missing)} of {len(paths)} images are not {place}, first {missing[0]}")


def is_image(path: str) -> bool:
    """Whether the name of a file ends as an image's."""
    return PurePosixPath(path).suffix.lower() in SUFFIXES
