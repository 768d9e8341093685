"""The pre-consolidation store: a directory of safetensors files named by what they depend on.

Trials that miss the same entry compute it once: the first takes the entry's lock, the others wait for it. A file
appears whole or not at all, because it is renamed into place; the lock falls with the process that held it. Whoever has
read an entry holds a shared lock on its file; what is locked is in use and never removed. An entry carries a digest of
its content and is held against it by everyone who reads it; one that is damaged is computed again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from filelock import FileLock
from safetensors import SafetensorError
from torch import Tensor

from trainables.tensor_files import header_of, read_sealed, replace_file, sealed

FORMAT_VERSION = 5  # also goes up when the same key would give other numbers
_SUFFIX = ".safetensors"
_log = logging.getLogger(__name__)


def digest(parts: Mapping[str, object]) -> str:
    """Return the key of an entry: a digest of everything its content depends on, and of the format version."""
    text = json.dumps({"format": FORMAT_VERSION, **parts}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Entry:
    """One entry as the directory shows it.

    Attributes:
        path: The entry's file.
        bytes: The size of the file, bytes.
        used: When it was last read or written, seconds since the epoch.
        about: What the entry is, for people: what was passed to `Store.get`.
    """

    path: Path
    bytes: int
    used: float
    about: dict[str, str]

    @property
    def in_use(self) -> bool:
        """Whether a living trial has read the entry."""
        with suppress(FileNotFoundError), self.path.open("rb") as file, _exclusive(file) as free:
            return not free
        return False

    def remove(self) -> bool:
        """Remove it unless it is in use; says whether it is gone."""
        with suppress(FileNotFoundError), self.path.open("rb") as file, _exclusive(file) as free:
            if free:
                self.path.unlink()
            return free
        return True


class Store:
    """A content-addressed directory of tensors.

    Args:
        folder: Folder of the entries; made if missing. Every process that names it shares it.
        max_bytes: Least recently used entries are removed to stay below it; None for no bound.
    """

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self._held: dict[Path, IO[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def get(
        self, key: str, compute: Callable[[], dict[str, Tensor]], about: Mapping[str, str] | None = None
    ) -> dict[str, Tensor]:
        """Return the entry of that key, computing it if it is missing, cannot be read or is not what was written.

        Args:
            key: The entry's key, made by `digest`.
            compute: Function that makes the tensors; called at most once at a time per key, over all processes.
            about: What the entry is, for people who list the store.

        Returns:
            Name to tensor on the CPU: memory-mapped, or as computed if the disk would not take it.
        """
        path = self.folder / f"{key}{_SUFFIX}"
        entry = self._read(path, say=_log.debug)
        if entry is not None:
            return entry
        with FileLock(self.folder / f"{key}.lock"):
            entry = self._read(path)  # another process may have finished it while this one waited
            if entry is not None:
                return entry
            tensors = {name: tensor.contiguous() for name, tensor in compute().items()}
            try:
                replace_file(path, tensors, sealed(about or {}, tensors))
            except (OSError, SafetensorError) as error:
                _log.warning("store entry %s cannot be written (%s); going on without it", path, error)
                return tensors
            entry = self._read(path)
        self.shrink()
        return tensors if entry is None else entry

    def entries(self) -> list[Entry]:
        """Return all whole entries, the least recently used first."""
        found = []
        for path in self.folder.glob(f"*{_SUFFIX}"):
            with suppress(FileNotFoundError):  # removed by another process meanwhile
                state = path.stat()
                found.append(Entry(path, state.st_size, state.st_mtime, _about(path)))
        return sorted(found, key=lambda entry: entry.used)

    def shrink(self, max_bytes: int | None = None) -> list[Entry]:
        """Remove least recently used entries until the rest fits, never one in use.

        Args:
            max_bytes: Bound on the store's size; by default the store's own. 0 removes all that can be.

        Returns:
            The entries that were removed.
        """
        bound = self.max_bytes if max_bytes is None else max_bytes
        if bound is None:
            return []
        with FileLock(self.folder / "shrink.lock"):
            entries = self.entries()
            total, removed = sum(entry.bytes for entry in entries), []
            for entry in entries:
                if total <= bound:
                    break
                if entry.remove():
                    total -= entry.bytes
                    removed.append(entry)
        return removed

    def close(self) -> None:
        """Let go of every entry that was read through this object."""
        while self._held:
            self._held.popitem()[1].close()

    def _read(self, path: Path, say: Callable[[str, Path, Exception], None] = _log.warning) -> dict[str, Tensor] | None:
        """Read an entry and hold it; `say` is told why one that is there is of no use."""
        if not self._hold(path):
            return None
        try:
            tensors, _ = read_sealed(path)
        except Exception as error:  # of a damaged header safetensors raises more kinds than it documents
            self._held.pop(path).close()
            say("store entry %s cannot be read (%s); computing it again", path, error)
            return None
        with suppress(OSError):
            os.utime(path)
        return tensors

    def _hold(self, path: Path) -> bool:
        """Take a shared lock on an entry for as long as this object lives; says whether the entry is there."""
        with suppress(FileNotFoundError):
            file = path.open("rb")
            fcntl.flock(file, fcntl.LOCK_SH)
            if path.exists():  # not removed before the lock was held
                self._held[path] = file
                return True
            file.close()
        return False


@contextmanager
def _exclusive(file: IO[bytes]) -> Iterator[bool]:
    """Lock a file against readers while entered; yields whether that worked, without waiting."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True


def _about(path: Path) -> dict[str, str]:
    try:
        return header_of(path)
    except (OSError, SafetensorError):
        return {}
