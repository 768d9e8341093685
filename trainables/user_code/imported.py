"""The files of imported modules as they were then: Python runs what it has imported, also after the file has changed.

Workers are processes of their own and import the file as it is when they start.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

_COMPILED_HEADER = 16  # bytes of a compiled file before its code
_digests: dict[str, tuple[object, str | None]] = {}  # a module's import, which a reload replaces, and its file's sha256


def digest_at_import(name: str) -> str | None:
    """Return the sha256 of a module's file as it was imported; None for a module without a file that can be read.

    It is taken when it is first asked for, which is right after the import; of an earlier import Python's compiled
    file shows whether the file has changed since. Then it is the sha256 of that.
    """
    module = sys.modules.get(name)
    imported = getattr(module, "__spec__", None) or module
    if name not in _digests or _digests[name][0] is not imported:
        _digests[name] = imported, _digest(getattr(module, "__file__", None), _compiled_earlier(module))
    return _digests[name][1]


def digest_now(name: str) -> str | None:
    """Return the sha256 of a module's file as it is now; None for a module without a file that can be read."""
    return _digest(getattr(sys.modules.get(name), "__file__", None))


def stale(name: str, folder: str | None) -> str | None:
    """Return why an imported module is not what a new process would import, with `folder` last; else None."""
    if (module := sys.modules.get(name)) is None:
        return None
    file = getattr(module, "__file__", None)
    if digest_now(name) not in (None, digest_at_import(name)):
        return f"{file} has changed since this Python imported it"
    package = name.partition(".")[0]
    spec = getattr(sys.modules.get(package), "__spec__", None)
    found = PathFinder.find_spec(package, [*sys.path, *filter(None, [folder])])
    if spec is None or found is None or not (spec.has_location and found.has_location):
        return None
    if os.path.realpath(spec.origin) == os.path.realpath(found.origin or ""):
        return None
    return f"this Python has imported {package!r} from {spec.origin}, not from {found.origin}"


def _digest(file: str | None, content: bytes | None = None) -> str | None:
    with suppress(OSError):  # a module of a zip file, or a file that is gone
        return hashlib.sha256(Path(file or "").read_bytes() if content is None else content).hexdigest()
    return None


def _compiled_earlier(module: ModuleType | None) -> bytes | None:
    """Return what Python compiled at the import, if the file was another then; None if it was not, or nobody knows."""
    cached = Path(getattr(module, "__cached__", None) or "")
    if sys.dont_write_bytecode or not os.access(cached.parent, os.W_OK):
        return None  # what is there may be of another process
    with suppress(OSError, AttributeError, TypeError):
        compiled, now = cached.read_bytes(), os.stat(module.__file__)  # type: ignore[union-attr,arg-type]
        flags, modified, size = (int.from_bytes(compiled[start : start + 4], "little") for start in (4, 8, 12))
        touched = (modified, size) != (int(now.st_mtime) & 0xFFFFFFFF, now.st_size & 0xFFFFFFFF)
        if flags == 0 and touched and not _is_compiled(module.__file__, compiled):  # type: ignore[union-attr,arg-type]
            return compiled
    return None


def _is_compiled(file: str, compiled: bytes) -> bool:
    """Whether this is what Python compiles of a file, which may have been saved again without a change."""
    with suppress(ValueError, EOFError, SyntaxError):
        code: object = marshal.loads(compiled[_COMPILED_HEADER:])
        return code == compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)
    return False
