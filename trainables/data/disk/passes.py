"""Passes over all images of a part, to decode each; a note keeps the unreadable ones.

The note has the digest of the decoded files, and a line for each unreadable image: its row and the reason. Notes are in
the user's cache folder, because only `data prepare` may write among the user's images.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from platformdirs import user_cache_path
from torch import Tensor

from checked_input.text_files import escaped, read_text
from checked_input.whole_files import replacing
from trainables.data.disk.tree import MOST_FILE, Tick
from trainables.data.images import PixelImages, StoredImages, in_order
from trainables.errors import InputError

Result = TypeVar("Result")
_WINDOW = 8  # images in memory per thread


def note_file(home: Path, name: str) -> Path:
    """Return the file of a note about the images of a folder: `~/.cache/tausearch/images/DIGEST/NAME.checked`."""
    place = hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:32]
    return user_cache_path("tausearch") / "images" / place / f"{name}.checked"


@dataclass(frozen=True)
class TensorImages(PixelImages):
    """Images in memory as `StoredImages`, RGB."""

    images: Tensor  # uint8 (n, c, h, w), c 1 or 3

    def __len__(self) -> int:
        return len(self.images)

    @property
    def digest(self) -> str:
        """Digest of all pixels of all images."""
        return hashlib.sha256(self.images.numpy().tobytes()).hexdigest()

    def name(self, row: int) -> str:
        """Return the row number, from 0."""
        return f"row {row}"

    def image(self, row: int) -> Tensor:
        """Read one image; see `StoredImages`."""
        return self.images[row].expand(3, -1, -1)

    def take(self, rows: Tensor) -> TensorImages:
        """Return the images of some rows alone; see `StoredImages`."""
        return TensorImages(self.images[rows])


def stored(images: Tensor | StoredImages) -> StoredImages:
    """Return images as `StoredImages`."""
    return TensorImages(images) if isinstance(images, Tensor) else images


def each_image(images: StoredImages, look: Callable[[int], Result], tick: Tick) -> Iterator[Result | InputError]:
    """Yield for each row, in order, the result of `look` or its InputError; all CPUs of this process work."""

    def one(row: int) -> Result | InputError:
        try:
            return look(row)
        except InputError as error:
            return error

    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    rows, ahead = range(len(images)), threads * _WINDOW - 1
    for found in in_order(one, rows, threads=threads, ahead=ahead, name="pass-over-images"):
        yield found
        tick(1)


def sizes_or_faults(images: Tensor | StoredImages, tick: Tick) -> Iterator[tuple[int, int] | str]:
    """Decode every image; yield width and height of each, upright, or the line that says why it cannot be read."""
    whole = stored(images)
    for look in each_image(whole, lambda row: whole.image(row).shape, tick):
        yield escaped(str(look)) if isinstance(look, InputError) else (look[2], look[1])


def unreadable_rows(images: StoredImages, note: Path, tick: Tick) -> dict[int, str]:
    """Return the rows of unreadable images, each with its error, from the note; without one decode all and write it."""
    known = noted(images, note)
    if known is not None:
        return known
    found = {row: look for row, look in enumerate(sizes_or_faults(images, tick)) if isinstance(look, str)}
    _write(note, images, found)
    return found


def strike_readable(images: StoredImages, note: Path) -> None:
    """Decode the images in a note once more, and strike those that can be read: their fault may have passed."""
    if known := noted(images, note):
        looks = sizes_or_faults(images.take(torch.tensor(list(known))), lambda count: None)
        _write(note, images, {row: look for row, look in zip(known, looks, strict=True) if isinstance(look, str)})


def noted(images: StoredImages, note: Path) -> dict[int, str] | None:
    """Return the unreadable rows in a note; None without a note of these files."""
    try:
        digest, *lines = read_text(note, MOST_FILE).splitlines()
        rows = {int(row): line for row, line in (line.split(" ", 1) for line in lines)}
    except (OSError, ValueError):
        return None
    return rows if digest == images.digest else None


def _write(note: Path, images: StoredImages, unreadable: Mapping[int, str]) -> None:
    lines = [images.digest, *(f"{row} {' '.join(line.splitlines())}" for row, line in unreadable.items())]
    with suppress(OSError):  # no such folder can be made: every run decodes the images again
        note.parent.mkdir(parents=True, exist_ok=True)
        with replacing(note) as unfinished:  # a link in the place of the note is not followed
            unfinished.write_text("\n".join(lines), encoding="utf-8")


def longest_side(images: Tensor | StoredImages, count: int) -> int:
    """Return the longest side, in pixels, of `count` readable images spread evenly over all."""
    whole = stored(images)
    sides = [0]
    for row in range(0, len(whole), max(1, len(whole) // count)):
        with suppress(InputError):
            sides.append(max(whole.image(row).shape[1:]))
    return max(sides)
