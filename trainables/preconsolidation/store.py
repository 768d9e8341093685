"""The pre-consolidation store: a directory of safetensors files named by what they depend on.

Trials that miss the same entry compute it once: the first takes the entry's lock, the others wait for it. A file
appears whole or not at all, because it is renamed into place; the lock falls with the process that held it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

FORMAT_VERSION = 1
_log = logging.getLogger(__name__)


def digest(parts: dict[str, object]) -> str:
    """Return the key of an entry: a digest of everything its content depends on, and of the format version."""
    text = json.dumps({"format": FORMAT_VERSION, **parts}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class Store:
    """A content-addressed directory of tensors.

    Args:
        folder: Where entries lie; made if missing. Every process that names it shares it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: str, compute: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """Return the entry of that key, computing it if it is missing or cannot be read.

        Args:
            key: From `digest`.
            compute: Makes the tensors; called at most once at a time per key, over all processes.

        Returns:
            Name to tensor on the CPU, memory-mapped.

        Raises:
            OSError: If the entry cannot be written or read back.
        """
        path = self.folder / f"{key}.safetensors"
        entry = _read(path)
        if entry is None:
            with FileLock(self.folder / f"{key}.lock"):
                entry = _read(path)  # another process may have finished it while this one waited
                if entry is None:
                    _write(path, compute())
                    entry = _read(path)
        if entry is None:
            raise OSError(f"store entry {path} cannot be read back")
        return entry


def _read(path: Path) -> dict[str, Tensor] | None:
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as entry:
            return {name: entry.get_tensor(name) for name in entry.keys()}  # noqa: SIM118  # not a dict
    except (OSError, SafetensorError) as error:
        _log.warning("store entry %s cannot be read (%s); computing it again", path, error)
        return None


def _write(path: Path, tensors: dict[str, Tensor]) -> None:
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
