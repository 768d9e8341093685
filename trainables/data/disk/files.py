"""Image files, in folders or archives, decoded when they are read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from trainables.data.disk.decoding import MOST_BYTES, decode, require_size
from trainables.data.disk.tree import Entry
from trainables.errors import InputError


@dataclass(frozen=True)
class ImageFiles:
    """Images of one file each, on disk or in an archive: the paths and the entries of the tree."""

    names: tuple[str, ...]
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
