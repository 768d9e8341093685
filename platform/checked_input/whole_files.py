"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to, whose file takes the place of `path` once it is whole; a device gives itself."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        yield path
        return
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.tmp")  # processes of several machines may write
    try:
        yield unfinished
        os.replace(unfinished, path)
    except OSError as error:
        if error.errno is None:  # of no file, as that of an encoder
            raise
        # It names the temporary file.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):  # a file system that is read-only refuses even this
            unfinished.unlink(missing_ok=True)
