"""Archives that are compressed as a whole, unpacked for the time of a preparation."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

from trainables.data.disk.passes import Tick
from trainables.data.disk.tree import UNPACKABLE, BoundedTarInfo, Tree, open_tree
from trainables.errors import InputError

_USABLE = 0.9  # share of the free disk
_SMALLEST = 4096  # bytes that a file takes on most file systems, however small it is


def usable_bytes(folder: Path) -> int:
    """Return how many bytes the preparation of a dataset may write below a folder."""
    return int(shutil.disk_usage(folder).free * _USABLE)


def is_unpackable(path: str) -> bool:
    """Whether Python can unpack an archive but not read its members one by one."""
    return path.lower().endswith(UNPACKABLE)


def unpacked(tree: Tree, scratch: Path, started: Callable[[str, int], Tick]) -> Tree:
    """Return a tree with the content of its compressed archives, which are unpacked into a new folder `scratch`.

    Args:
        tree: The files of a dataset's folder.
        scratch: The folder to make and fill.
        started: Receives the name of each archive and 0; returns the function to call after each file.

    Raises:
        InputError: If an archive is broken, or its files do not fit the disk.
    """
    scratch.mkdir()
    left = usable_bytes(scratch)
    for path in filter(is_unpackable, tree.closed):
        tick = started(f"unpacking {path}", 0)
        try:
            left = _unpack(tree.root / path, scratch, left, tick)
        except Exception as error:  # a broken archive raises many kinds
            reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(":")
            raise InputError(f"{tree.root / path}: cannot be unpacked ({reason})") from error
    closed = {path: why for path, why in tree.closed.items() if not is_unpackable(path)}
    return Tree(tree.root, {**tree.entries, **open_tree(scratch).entries}, closed)


def _unpack(path: Path, scratch: Path, left: int, tick: Tick) -> int:
    """Unpack an archive that may write `left` bytes; returns how many may still be written."""
    with tarfile.open(path, tarinfo=BoundedTarInfo) as archive:
        for member in archive:
            left -= max(member.size, _SMALLEST)
            if left < 0:
                raise OSError(f"its files need more than {_USABLE:.0%} of the free disk")
            archive.extract(member, scratch, filter="data")
            tick(1)
    return left
