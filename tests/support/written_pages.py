"""Pages that a command writes, beside those that are kept."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path


def kept_and_written(
    names: Sequence[str], docs: Path, write: Callable[[Path], None], folder: Path
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts of pages as they are kept, and as a command writes copies of them in an empty folder."""
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(docs / name, folder / name)
    write(folder)
    kept, written = ({name: (root / name).read_text(encoding="utf-8") for name in names} for root in (docs, folder))
    return kept, written
