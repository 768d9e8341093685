"""Archives that are compressed as a whole, unpacked for as long as it takes to convert what is in them."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

from trainables.data.disk.passes import Tick
from trainables.data.disk.tree import Tree, open_tree
from trainables.errors import InputError

_UNPACKABLE = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


def is_unpackable(path: str) -> bool:
    """Whether Python can unpack an archive that it cannot read file by file."""
    return path.lower().endswith(_UNPACKABLE)


def unpacked(tree: Tree, scratch: Path, started: Callable[[str, int], Tick]) -> Tree:
    """Unpack the compressed archives of a tree.

    Args:
        tree: The tree of files in a dataset's folder.
        scratch: Folder that is made and filled with the content of the archives.
        started: Function that is told each archive's name and returns whom to tell of each file.

    Returns:
        The tree with what was in the archives.

    Raises:
        InputError: If an archive is broken.
    """
    scratch.mkdir()
    for path in filter(is_unpackable, tree.closed):
        tick = started(f"unpacking {path}", 0)
        try:
            with tarfile.open(tree.root / path) as archive:
                for member in archive:
                    archive.extract(member, scratch, filter="data")
                    tick(1)
        except (OSError, EOFError, tarfile.TarError) as error:
            raise InputError(
                f"{tree.root / path}: cannot be unpacked ({str(error).splitlines()[0].rstrip(':')})"
            ) from error
    closed = {path: why for path, why in tree.closed.items() if not is_unpackable(path)}
    return Tree(tree.root, {**tree.entries, **open_tree(scratch).entries}, closed)
