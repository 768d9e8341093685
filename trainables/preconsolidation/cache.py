"""The pre-consolidation cache: a directory of safetensors files named by a digest of their inputs.

Trials that miss the same entry compute it once: the first takes the entry's lock, the others wait for it. A file
appears whole or not at all, because it is renamed into place; the lock is released when its process exits. A process
that has read an entry holds a shared lock on its file; a locked entry is in use and never removed. An entry carries a
digest of its content, which every reader checks; a damaged entry is computed again.
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

FORMAT_VERSION = 6  # also rises when the same key would give other numbers
_SUFFIX = ".safetensors"
_log = logging.getLogger(__name__)


def digest(parts: Mapping[str, object]) -> str:
    """Return the key of an entry: a digest of all inputs of its content, and of the format version."""
    text = json.dumps({"format": FORMAT_VERSION, **parts}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Entry:
    """One entry of the directory."""

    path: Path
    bytes: int
    used: float  # time of the last read or write, seconds since the epoch
    about: dict[str, str]  # as passed to `Cache.get`

    @property
    def in_use(self) -> bool:
        """Whether a running process has read the entry."""
        with suppress(FileNotFoundError), self.path.open("rb") as file, _exclusive(file) as free:
            return not free
        return False

    def remove(self) -> bool:
        """Remove the entry unless it is in use; returns whether it is gone."""
        with suppress(FileNotFoundError), self.path.open("rb") as file, _exclusive(file) as free:
            if free:
                self.path.unlink()
            return free
        return True


class Cache:
    """A content-addressed directory of tensors, shared by every process that names it; made if missing.

    The least recently used entries are removed to stay within `max_bytes`; None is no bound.
    """

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self._held: dict[Path, IO[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def get(
        self, key: str, compute: Callable[[], dict[str, Tensor]], about: Mapping[str, str] | None = None
    ) -> dict[str, Tensor]:
        """Return the entry of a key; compute it if it is missing, unreadable or damaged.

        `digest` makes the key. `compute` is called at most once at a time per key, over all processes. Lists of the
        cache show `about`. Tensors are on the CPU: memory-mapped, or as computed if the disk refuses them.
        """
        path = self.folder / f"{key}{_SUFFIX}"
        if (entry := self._read(path, say=_log.debug)) is not None:
            return entry
        with FileLock(self.folder / f"{key}.lock"):
            if (entry := self._read(path)) is not None:  # another process computed it while this one waited
                return entry
            tensors = {name: tensor.contiguous() for name, tensor in compute().items()}
            try:
                replace_file(path, tensors, sealed(about or {}, tensors))
            except (OSError, SafetensorError) as error:
                _log.warning("cache entry %s cannot be written (%s); going on without it", path, error)
                return tensors
            entry = self._read(path)
        self.shrink()
        return tensors if entry is None else entry

    def entries(self) -> list[Entry]:
        """Return all whole entries, the least recently used first."""
        found = []
        for path in self.folder.glob(f"*{_SUFFIX}"):
            with suppress(FileNotFoundError):  # removed by another process meanwhile
                state, about = path.stat(), dict[str, str]()
                with suppress(OSError, SafetensorError):
                    about = header_of(path)
                found.append(Entry(path, state.st_size, state.st_mtime, about))
        return sorted(found, key=lambda entry: entry.used)

    def shrink(self, max_bytes: int | None = None) -> list[Entry]:
        """Return the least recently used entries, removed until the rest fits; entries in use stay.

        The bound is `max_bytes` or else the cache's own; 0 removes all entries that are not in use.
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
        """Release every entry that was read through this object."""
        while self._held:
            self._held.popitem()[1].close()

    def _read(self, path: Path, say: Callable[[str, Path, Exception], None] = _log.warning) -> dict[str, Tensor] | None:
        """Read an entry and hold it; `say` logs why an existing entry cannot be used."""
        if not self._hold(path):
            return None
        try:
            tensors, _ = read_sealed(path)
        except Exception as error:  # damaged headers raise more kinds than safetensors documents
            self._held.pop(path).close()
            say("cache entry %s cannot be read (%s); computing it again", path, error)
            return None
        with suppress(OSError):
            os.utime(path)
        return tensors

    def _hold(self, path: Path) -> bool:
        """Take a shared lock on an entry for the lifetime of this object; returns whether the entry exists."""
        with suppress(FileNotFoundError):
            file = path.open("rb")
            fcntl.flock(file, fcntl.LOCK_SH)
            if path.exists():  # not removed before the lock was taken
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
