"""Which files others cannot read although the umask lets them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set the umask of this process."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def files_against_umask(folder: Path) -> list[str]:
    """Return the files and folders below a folder that lack a right of reading which the umask leaves them."""
    umask = os.umask(0o022)
    os.umask(umask)
    rights = 0o444 & ~umask
    return [f"{path.stat().st_mode & 0o777:o} {path}" for path in folder.rglob("*") if rights & ~path.stat().st_mode]
