"""The prepared form of a dataset, beside the published files: a memory-mapped array of pixels, or Parquet shards.

    <dataset>/tausearch-prepared/v1/<variant>/
        manifest.json                  digest of the source, and the size and sha256 of every file
        train-pixels.npy               uint8 values of all images, one after the other
        train-index.parquet            path, label, offset, height and width of each
        train-00000-of-00002.parquet   or these: image (bytes, path) and label

The folder appears whole or not at all, because it is renamed into place. All processes of a node share one copy of a
memory-mapped array in the page cache.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from checked_input.text_files import read_text
from trainables.data.disk.decoding import MOST_PIXELS, MOST_RATIO
from trainables.data.disk.listing import Listing, Rows
from trainables.data.disk.parquet import parquet_images, read_labels
from trainables.data.images import PixelImages
from trainables.data.splits import SPLIT_NAMES, SplitName
from trainables.errors import InputError
from trainables.tensor_files import require_file

VERSION = 1
_MOST_MANIFEST = 2**24  # bytes
MANIFEST = "manifest.json"
PreparedForm = Literal["array", "parquet"]
PREPARED_FORMS: tuple[PreparedForm, ...] = ("array", "parquet")


@dataclass(frozen=True)
class PreparedFile:
    """Size and sha256 of a file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class PreparedPart:
    """One part of a prepared dataset."""

    images: int
    source: str  # digest of the published images
    files: dict[str, PreparedFile]  # by name, in order
    left_out: tuple[str, ...] = ()  # a line for each published image that cannot be read


@dataclass(frozen=True)
class Manifest:
    """The content of a prepared folder."""

    version: int  # of the layout of prepared folders
    form: PreparedForm
    classes: tuple[str, ...]  # names in label order
    layout: str  # of the published dataset, in a few words
    parts: dict[SplitName, PreparedPart]

    def left_out(self, parts: Sequence[SplitName]) -> list[str]:
        """Return a line for each published image of some parts that cannot be read."""
        return [line for part in parts for line in self.parts[part].left_out]


def require_inside(path: Path) -> None:
    """Refuse a prepared form that a link leads out of the dataset's folder, by an InputError."""
    for folder in (path.parent, path.parent.parent):
        if folder.is_symlink():
            raise InputError(f"{folder}: is a link; the prepared form is written into the dataset's own folder only")


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a prepared folder, None without one; a damaged or older form is an InputError."""
    if not folder.is_dir():  # of a dataset whose own path is wrong, its reader says so
        return None
    try:
        content = json.loads(read_text(folder / MANIFEST, _MOST_MANIFEST))
        parts = {}
        for part, each in content["parts"].items():
            files = {name: PreparedFile(**file) for name, file in each["files"].items()}
            parts[part] = PreparedPart(each["images"], each["source"], files, tuple(each.get("left_out", ())))
        manifest = Manifest(content["version"], content["form"], tuple(content["classes"]), content["layout"], parts)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{folder / MANIFEST}: cannot be read; prepare the data again") from error
    texts = all(isinstance(text, str) for text in (manifest.layout, *manifest.classes))
    if (
        not texts
        or manifest.version != VERSION
        or manifest.form not in PREPARED_FORMS
        or set(parts) != set(SPLIT_NAMES)
    ):
        raise InputError(f"{folder / MANIFEST}: is not of this version; prepare the data again")
    for name, file in _files(manifest):
        if Path(name).name != name:
            raise InputError(f"{folder / MANIFEST}: names a file outside of its folder, {name!r}")
        found = (folder / name).stat().st_size if (folder / name).is_file() else None
        if found != file.bytes:
            got = "it is missing" if found is None else f"got {found}"
            raise InputError(f"{folder / name}: must have {file.bytes} bytes, {got}; prepare the data again")
    return manifest


def changed_files(folder: Path, manifest: Manifest) -> Iterator[tuple[str, bool]]:
    """Read every file of a prepared folder and yield its name and whether its content has changed."""
    for name, file in _files(manifest):
        yield name, sha256(folder / name) != file.sha256


def _files(manifest: Manifest) -> Iterator[tuple[str, PreparedFile]]:
    for part in manifest.parts.values():
        yield from part.files.items()


def sha256(path: Path) -> str:
    """Return the digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def listing_of(folder: Path, manifest: Manifest) -> Listing:
    """Return the dataset of a prepared folder; the files of a part are opened on its first use."""
    form, read = ("decoded array", _open_array) if manifest.form == "array" else ("Parquet shards", _open_shards)
    return Listing(
        manifest.classes,
        lambda part: read(folder, part, manifest.parts[part].files),
        f"prepared ({form}) from {manifest.layout}",
    )


def _open_shards(folder: Path, part: SplitName, files: dict[str, PreparedFile]) -> Rows:
    paths = [str(folder / name) for name in files]
    try:
        labels = torch.from_numpy(np.asarray(read_labels(paths, "label"), dtype=np.int64))
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{folder}: cannot be read; prepare the data again") from error
    return parquet_images(paths, "image"), labels


@dataclass(frozen=True)
class ArrayImages(PixelImages):
    """Decoded images in one memory-mapped array; each access reads the bytes of one image."""

    pixels: np.ndarray  # uint8 (bytes,), all images, each (h, w, 3)
    places: np.ndarray  # int64 (n, 3): offset, height and width of each image
    file: str  # path of the array
    digest: str  # of the part's files at the time of writing

    def __len__(self) -> int:
        return len(self.places)

    def name(self, row: int) -> str:
        """Return file and row number of an image, from 0."""
        return f"{self.file} row {row}"

    def image(self, row: int) -> Tensor:
        """Read one image; see `StoredImages`."""
        offset, height, width = (int(value) for value in self.places[row])
        pixels = np.array(self.pixels[offset : offset + 3 * height * width])
        return torch.from_numpy(pixels).view(height, width, 3).permute(2, 0, 1)

    def take(self, rows: Tensor) -> ArrayImages:
        """See `StoredImages`; the result shares the memory map without the places of other images."""
        return replace(self, places=self.places[rows.numpy()])


def _open_array(folder: Path, part: SplitName, files: dict[str, PreparedFile]) -> Rows:
    pixels, index = (folder / name for name in array_files(part))
    try:
        columns = [read_labels([str(index)], key) for key in ("label", "offset", "height", "width")]
        labels, *facts = (np.asarray(column, dtype=np.int64) for column in columns)
        places = np.stack(facts, axis=1)
        require_file(pixels)
        mapped = np.load(pixels, mmap_mode="r")
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{folder}: cannot be read; prepare the data again") from error
    if not _fits(mapped, places):
        raise InputError(f"{index}: names pixels that {pixels.name} does not have; prepare the data again")
    digest = hashlib.sha256("".join(file.sha256 for file in files.values()).encode()).hexdigest()
    return ArrayImages(mapped, places, str(pixels), digest), torch.from_numpy(labels)


def _fits(pixels: np.ndarray, places: np.ndarray) -> bool:
    """Whether every image lies within the pixels and has a size that an image file may have."""
    if pixels.dtype != np.uint8 or pixels.ndim != 1:
        return False
    offset, sides = places[:, 0], places[:, 1:]
    if not (sides > 0).all() or not (sides <= MOST_PIXELS).all() or not (offset >= 0).all():
        return False
    area = sides.prod(axis=1)
    slim = (sides.max(axis=1) <= MOST_RATIO * sides.min(axis=1)).all()
    return bool(slim and (area <= MOST_PIXELS).all() and (offset <= len(pixels) - 3 * area).all())


def array_files(part: SplitName) -> tuple[str, str]:
    """Return the names of a part's files: pixels and index."""
    return f"{part}-pixels.npy", f"{part}-index.parquet"
