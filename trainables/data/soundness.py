"""Which images of a part can be read: all are decoded once, and a note beside the data spares the next look.

The note has the digest of the files that were looked at, and a line for each that cannot be read: its row and why.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import torch

from trainables.data.disk.passes import Tick, each_image, stored
from trainables.data.images import StoredImages
from trainables.errors import InputError


def unreadable_rows(images: StoredImages, note: Path, tick: Tick) -> dict[int, str]:
    """Return the rows of the images that cannot be read, each with the line that names the image and says why.

    Args:
        images: All images of one part.
        note: The file of the note; written if the data can be.
        tick: Function that is told of progress; see `Tick`.
    """
    known = noted(images, note)
    if known is not None:
        return known
    looks = each_image(images, lambda row: images.image(row).shape, tick)
    found = {row: str(look) for row, look in enumerate(looks) if isinstance(look, InputError)}
    _write(note, [images.digest, *(f"{row} {' '.join(line.splitlines())}" for row, line in found.items())])
    return found


def noted(images: StoredImages, note: Path) -> dict[int, str] | None:
    """Return what the note says of these images; None where there is none, or it is of other files."""
    try:
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
    """Return the longest side, pixels, of some images spread over all; those that cannot be read do not count."""
    whole = stored(images)
    sides = [0]
    for row in range(0, len(whole), max(1, len(whole) // count)):
        with suppress(InputError):
            sides.append(max(whole.image(row).shape[1:]))
    return max(sides)


def _write(note: Path, lines: list[str]) -> None:
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text("\n".join(lines), encoding="utf-8")
    except OSError:
        return  # read-only data: it is looked at before every run
