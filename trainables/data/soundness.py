"""The unreadable images of a part, found by decoding all images once and kept in a note beside the data.

The note has the digest of the decoded files, and a line for each unreadable image: its row and the reason.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path

import torch

from trainables.data.disk.passes import Tick, each_image, stored
from trainables.data.disk.prepared import require_inside
from trainables.data.disk.tree import MOST_FILE
from trainables.data.images import StoredImages
from trainables.errors import InputError
from trainables.tensor_files import require_file


def unreadable_rows(images: StoredImages, note: Path, tick: Tick) -> dict[int, str]:
    """Return the rows of the unreadable images of a part, each with its error; read from the note or written to it."""
    known = noted(images, note)
    if known is not None:
        return known
    looks = each_image(images, lambda row: images.image(row).shape, tick)
    found = {row: str(look) for row, look in enumerate(looks) if isinstance(look, InputError)}
    _write(note, [images.digest, *(f"{row} {' '.join(line.splitlines())}" for row, line in found.items())])
    return found


def noted(images: StoredImages, note: Path) -> dict[int, str] | None:
    """Return the unreadable rows in a note; None without a note of these files."""
    try:
        if require_file(note).st_size > MOST_FILE:
            return None
        digest, *lines = note.read_text(encoding="utf-8").splitlines()
        parts = [line.split(" ", 1) for line in lines]
        rows = {int(row): line for row, line in parts}
    except (OSError, ValueError):
        return None
    return rows if digest == images.digest else None


def without(images: StoredImages, labels: torch.Tensor, rows: dict[int, str]) -> tuple[StoredImages, torch.Tensor]:
    """Return images and labels without some rows."""
    if not rows:
        return images, labels
    kept = torch.tensor([row for row in range(len(labels)) if row not in rows], dtype=torch.int64)
    return images.take(kept), labels[kept]


def longest_side(images: torch.Tensor | StoredImages, count: int) -> int:
    """Return the longest side, in pixels, of `count` readable images spread evenly over all."""
    whole = stored(images)
    sides = [0]
    for row in range(0, len(whole), max(1, len(whole) // count)):
        with suppress(InputError):
            sides.append(max(whole.image(row).shape[1:]))
    return max(sides)


def _write(note: Path, lines: list[str]) -> None:
    unfinished = note.with_name(f"{note.name}.{uuid.uuid4().hex}.tmp")
    try:
        require_inside(note)
        note.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text("\n".join(lines), encoding="utf-8")
        os.replace(unfinished, note)  # a link in the place of the note is not followed
    except (InputError, OSError):  # read-only data: every run decodes it again
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
