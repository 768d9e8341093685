"""Images in Parquet files: a column of image files' bytes and a column of labels, as Hugging Face keeps them."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from trainables.data.disk.decoding import MOST_BYTES, decode, require_size
from trainables.errors import InputError

IMAGE_COLUMNS = ("image", "img", "image_bytes", "bytes", "pixel_values", "jpg", "png")
LABEL_COLUMNS = ("label", "labels", "fine_label", "class", "target", "targets")
MOST_ROWS = 20_000_000  # of a file; ImageNet-21k has 14 million images
MOST_GROUP = 2**30  # bytes of a column in memory at once: of a row group's images, of a file's labels
_ROWS_AT_ONCE = 4096
_GROUPS_KEPT = 4  # row groups in memory per thread: reading in order reads each once


@dataclass(frozen=True)
class ParquetFile:
    """One Parquet file of images."""

    path: str
    size: int  # bytes
    modified: int  # seconds since the epoch
    groups: tuple[int, ...]  # first row of each row group, then the number of rows
    changed: int  # `modified` in nanoseconds, which is in no digest


@dataclass(frozen=True)
class Columns:
    """Names of the columns in use of a Parquet file."""

    image: str  # structs with `bytes` (and `path`), or bytes
    label: str | None  # whole numbers or names
    path: str | None  # of the images
    names: tuple[str, ...]  # of all columns


@dataclass(frozen=True)
class ParquetImages:
    """Some rows of Parquet files, each image read when it is asked for."""

    files: tuple[ParquetFile, ...]
    column: str  # of images
    rows: np.ndarray  # int64 (n,), counted over all files, one after the other
    most: int = MOST_BYTES  # bytes of an image file

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.cumsum([0, *(file.groups[-1] for file in self.files)])

    @cached_property
    def digest(self) -> str:
        """Digest of the files' names, sizes and times of change."""
        facts = [(Path(file.path).name, file.size, file.modified) for file in self.files]
        return hashlib.sha256(repr((self.column, facts)).encode() + self.rows.tobytes()).hexdigest()

    def _place(self, row: int) -> tuple[ParquetFile, int]:
        over_all = int(self.rows[row])
        number = int(np.searchsorted(self._starts, over_all, side="right")) - 1
        return self.files[number], over_all - int(self._starts[number])

    def name(self, row: int) -> str:
        """Return file and row number of an image, from 0."""
        file, inner = self._place(row)
        return f"{file.path} row {inner}"

    def encoded(self, row: int) -> bytes:
        """Return the image file in a row; an unreadable Parquet file or a row without bytes is an InputError."""
        file, inner = self._place(row)
        group = int(np.searchsorted(np.asarray(file.groups), inner, side="right")) - 1
        with _readable(file.path):
            value = _reader.read(file, group, self.column)[inner - file.groups[group]].as_py()
        content = value.get("bytes") if isinstance(value, dict) else value
        if not content:
            raise InputError(f"image {self.name(row)}: cannot be read (the row holds no bytes)")
        require_size(len(content), self.name(row), self.most)
        return bytes(content)

    def image(self, row: int) -> Tensor:
        """Read one image; see `StoredImages`."""
        return decode(self.encoded(row), self.name(row))

    def take(self, rows: Tensor) -> ParquetImages:
        """Return the images of some rows alone; see `StoredImages`."""
        return replace(self, rows=self.rows[rows.numpy()])


def parquet_images(paths: Sequence[str], column: str, rows: np.ndarray | None = None) -> ParquetImages:
    """Return some rows of files, int64 `(n,)`, by default all, none read; a file without such a column: InputError."""
    files = tuple(_parquet_file(path, column) for path in paths)
    return ParquetImages(files, column, np.arange(sum(file.groups[-1] for file in files)) if rows is None else rows)


class _TooLargeError(OSError):
    """A column that is too large for the memory."""


class _Reader(threading.local):
    """Open files and row groups of one thread: Arrow's readers are not shared between threads."""

    def __init__(self) -> None:
        # By path, size and time of change: a file that was replaced is opened anew.
        self._open = lru_cache(maxsize=64)(lambda file: pq.ParquetFile(file.path, memory_map=True))
        self._group = lru_cache(maxsize=_GROUPS_KEPT)(self._read_group)

    def read(self, file: ParquetFile, group: int, column: str) -> Any:
        found = self._group(file, group, column)
        if isinstance(found, _TooLargeError):
            raise found
        return found

    def _read_group(self, file: ParquetFile, group: int, column: str) -> Any:
        try:
            return _bounded(self._open(file), [group], column).combine_chunks()
        except _TooLargeError as error:  # cached too, because the discovery takes long
            return error


_reader = _Reader()


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read ({str(error).splitlines()[0]})") from error


def _bounded(file: pq.ParquetFile, groups: Sequence[int], column: str) -> pa.ChunkedArray:
    """Return a column, read a few rows at a time; above MOST_GROUP bytes, which 2 kB can hold, a _TooLargeError."""
    chunks, size = [], 0
    # A name may have a dot, and a column `a` brings along `a.b`, whether a part of it or a column of that name.
    top = column if column in file.schema_arrow.names else column.rpartition(".")[0]
    kind = file.schema_arrow.field(top).type
    rows = max(1, min(_ROWS_AT_ONCE, MOST_GROUP // 4 // _longest(file, groups, column)))
    for batch in file.iter_batches(rows, row_groups=list(groups), columns=[column], use_threads=False):
        chunks.append(batch.column(top))
        size += batch.nbytes
        if size > MOST_GROUP:
            raise _TooLargeError(f"column {column!r} decodes to more than {MOST_GROUP:,} bytes in one piece")
    return pa.chunked_array(chunks, chunks[0].type if chunks else kind)


def _longest(file: pq.ParquetFile, groups: Sequence[int], column: str) -> int:
    """Return a bound on the bytes of one value: the uncompressed bytes of its column in its row group."""
    found = [1]
    for group in map(file.metadata.row_group, groups):
        parts = [group.column(n) for n in range(group.num_columns)]
        found += [part.total_uncompressed_size for part in parts if f"{part.path_in_schema}.".startswith(f"{column}.")]
    return max(found)


def _parquet_file(path: str, column: str) -> ParquetFile:
    with _readable(path):
        stat = Path(path).stat()
        metadata = pq.read_metadata(path)
    _require_rows(path, metadata)
    schema = metadata.schema.to_arrow_schema()
    index = schema.get_field_index(column)  # below 0, too, for a name of two columns
    if index < 0 or not _holds_bytes(schema.field(index).type):
        raise InputError(f"{path}: has no column {column!r} of image bytes; has {', '.join(schema.names)}")
    groups = [0]
    for group in range(metadata.num_row_groups):
        groups.append(groups[-1] + metadata.row_group(group).num_rows)
    return ParquetFile(path, stat.st_size, int(stat.st_mtime), tuple(groups), stat.st_mtime_ns)


def _require_rows(path: str, metadata: pq.FileMetaData) -> None:
    if metadata.num_rows > MOST_ROWS:
        raise InputError(f"{path}: has {metadata.num_rows:,} rows, at most {MOST_ROWS:,} are read")


def find_columns(path: str) -> Columns:
    """Find the columns of images, labels and paths; a file without a column of image bytes is an InputError."""
    with _readable(path):
        schema = pq.read_schema(path)
    names = schema.names
    holds_bytes = [field.name for field in schema if _holds_bytes(field.type)]
    image = _first(IMAGE_COLUMNS, holds_bytes) or (holds_bytes[0] if len(holds_bytes) == 1 else None)
    if image is None:
        raise InputError(f"{path}: has no column of image bytes; has {', '.join(names)}")
    paths = _first(("filename", "file_name", "path"), names)
    return Columns(image, _first(LABEL_COLUMNS, names), paths, tuple(names))


def _first(preferred: Sequence[str], found: Sequence[str]) -> str | None:
    return next((name for name in preferred if name in found), None)


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        fields = [kind.field(n) for n in range(kind.num_fields)]
        return any(field.name == "bytes" and _is_binary(field.type) for field in fields)
    return _is_binary(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def read_labels(paths: Sequence[str], column: str) -> list[Any]:
    """Read the labels of several files in order; a missing column or label is an InputError."""
    labels: list[Any] = []
    for path in paths:
        try:
            found = _read_column(path, column)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({str(error).splitlines()[0]})") from error
        except (KeyError, IndexError, UnicodeDecodeError, pa.ArrowException) as error:
            raise InputError(f"{path}: has no column {column!r} that can be read") from error
        if None in found:
            raise InputError(f"{path}: column {column!r} has no value in row {found.index(None)}")
        labels += found
    return labels


def read_paths(paths: Sequence[str], columns: Columns) -> list[str] | None:
    """Read the images' paths without their bytes; None unless every image has a path."""
    names: list[str] = []
    for path in paths:
        try:
            values = _read_column(path, columns.path or f"{columns.image}.path")
        except (OSError, KeyError, IndexError, pa.ArrowException):
            return None
        names += [value["path"] if isinstance(value, dict) else value for value in values]
    return None if None in names else names


def _read_column(path: str, column: str) -> list[Any]:
    with pq.ParquetFile(path) as file:
        _require_rows(path, file.metadata)
        return _bounded(file, range(file.metadata.num_row_groups), column).to_pylist()


def label_names(path: str, column: str) -> list[str] | None:
    """Return the class names in Hugging Face's metadata for a column of whole numbers, if there are any."""
    metadata = pq.read_schema(path).metadata or {}
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return [str(name) for name in features[column]["names"]]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
