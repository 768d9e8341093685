"""Archives that are compressed as a whole, unpacked for the time of a preparation."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

from trainables.data.disk.passes import Tick
from trainables.data.disk.tree import UNPACKABLE, BoundedTarInfo, Tree, open_tree
from trainables.errors import InputError


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
        InputError: If an archive is broken.
    """
    scratch.mkdir()
    for path in filter(is_unpackable, tree.closed):
        tick = started(f"unpacking {path}", 0)
        try:
            with tarfile.open(tree.root / path, tarinfo=BoundedTarInfo) as archive:
                for member in archive:
                    archive.extract(member, scratch, filter="data")
                    tick(1)
        except Exception as error:  # a broken archive raises many kinds
            reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(":")
            raise InputError(f"{tree.root / path}: cannot be unpacked ({reason})") from error
    closed = {path: why for path, why in tree.closed.items() if not is_unpackable(path)}
    return Tree(tree.root, {**tree.entries, **open_tree(scratch).entries}, closed)
