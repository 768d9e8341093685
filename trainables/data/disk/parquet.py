"""Images in Parquet files: a column of image files' bytes and a column of labels, as Hugging Face keeps them."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from trainables.data.disk.decoding import decode, require_size
from trainables.errors import InputError

IMAGE_COLUMNS = ("image", "img", "image_bytes", "bytes", "pixel_values", "jpg", "png")
LABEL_COLUMNS = ("label", "labels", "fine_label", "class", "target", "targets")
MOST_ROWS = 20_000_000  # of all files of a part; ImageNet-21k has 14 million images
MOST_GROUP = 2**30  # bytes of a column that are held at once: of a row group's images, of a file's labels
_ROWS_AT_ONCE = 4096
_GROUPS_KEPT = 4  # row groups in memory per thread: reading in order reads each once


@dataclass(frozen=True)
class ParquetFile:
    """One Parquet file of images.

    Attributes:
        path: Path of the file.
        size: Size of the file, bytes.
        modified: Time of the file's last change, seconds since the epoch.
        groups: Number of the first row of each row group, and the number of rows at the end.
    """

    path: str
    size: int
    modified: int
    groups: tuple[int, ...]


@dataclass(frozen=True)
class Columns:
    """The columns of a Parquet file that are read.

    Attributes:
        image: Column of images: structs with `bytes` (and `path`), or bytes.
        label: Column of labels: whole numbers or names.
        path: Column of the images' paths, if there is one.
    """

    image: str
    label: str | None
    path: str | None = None


@dataclass(frozen=True)
class ParquetImages:
    """Some rows of Parquet files, read when an image is asked for.

    Attributes:
        files: The files whose rows are counted, one after the other.
        column: Name of the column of images.
        rows: Row numbers over all the files, int64 `(n,)`; other rows are out of reach.
    """

    files: tuple[ParquetFile, ...]
    column: str
    rows: np.ndarray

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
        """Read the bytes of an image file from its row.

        Returns:
            The image file's content.

        Raises:
            InputError: If the Parquet file cannot be read, or the row holds no image.
        """
        file, inner = self._place(row)
        group = int(np.searchsorted(np.asarray(file.groups), inner, side="right")) - 1
        try:
            value = _read_group(file.path, group, self.column)[inner - file.groups[group]].as_py()
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{file.path}: cannot be read ({str(error).splitlines()[0]})") from error
        content = value.get("bytes") if isinstance(value, dict) else value
        if not content:
            raise InputError(f"image {self.name(row)}: cannot be read (the row holds no bytes)")
        require_size(len(content), self.name(row))
        return bytes(content)

    def image(self, row: int) -> Tensor:
        """Read one image; see `StoredImages`."""
        return decode(self.encoded(row), self.name(row))

    def take(self, rows: Tensor) -> ParquetImages:
        """Return the images of some rows alone; see `StoredImages`."""
        return replace(self, rows=self.rows[rows.numpy()])


class _TooLargeError(OSError):
    """A column that is too large to be held."""


_local = threading.local()  # Arrow's readers are not shared between threads


def _read_group(path: str, group: int, column: str) -> Any:
    if not hasattr(_local, "read"):

        @lru_cache(maxsize=_GROUPS_KEPT)
        def read(path: str, group: int, column: str) -> Any:
            try:
                return _bounded(_open(path), [group], column).combine_chunks()
            except _TooLargeError as error:  # known from now on: it takes a while to find out
                return error

        _local.read = read
    found = _local.read(path, group, column)
    if isinstance(found, _TooLargeError):
        raise found
    return found


def _bounded(file: pq.ParquetFile, groups: Sequence[int], column: str) -> pa.ChunkedArray:
    """Read a column a few rows at a time, and stop where it is too large: a file of 2 kB can hold 16 GB.

    Returns:
        The column.

    Raises:
        _TooLargeError: If it decodes to more bytes than are held at once.
    """
    chunks, size = [], 0
    rows = max(1, min(_ROWS_AT_ONCE, MOST_GROUP // 4 // _longest(file, groups, column)))
    for batch in file.iter_batches(rows, row_groups=list(groups), columns=[column], use_threads=False):
        chunks.append(batch.column(0))
        size += batch.nbytes
        if size > MOST_GROUP:
            raise _TooLargeError(f"column {column!r} decodes to more than {MOST_GROUP:,} bytes in one piece")
    kind = file.schema_arrow.field(column.partition(".")[0]).type
    return pa.chunked_array(chunks, chunks[0].type if chunks else kind)


def _longest(file: pq.ParquetFile, groups: Sequence[int], column: str) -> int:
    """Return a bound on the bytes of one value: no value is longer than what its column has in its row group."""
    found = [1]
    for group in map(file.metadata.row_group, groups):
        parts = [group.column(n) for n in range(group.num_columns)]
        found += [part.total_uncompressed_size for part in parts if f"{part.path_in_schema}.".startswith(f"{column}.")]
    return max(found)


def _open(path: str) -> Any:
    if not hasattr(_local, "open"):
        _local.open = lru_cache(maxsize=64)(lambda path: pq.ParquetFile(path, memory_map=True))
    return _local.open(path)


def parquet_file(path: str) -> ParquetFile:
    """Look at a Parquet file.

    Returns:
        The file with its size, its time of change and its row groups.

    Raises:
        InputError: If the file cannot be read as Parquet.
    """
    try:
        stat = Path(path).stat()
        metadata = pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from error
    _require_rows(path, metadata)
    groups = [0]
    for group in range(metadata.num_row_groups):
        groups.append(groups[-1] + metadata.row_group(group).num_rows)
    return ParquetFile(path, stat.st_size, int(stat.st_mtime), tuple(groups))


def _require_rows(path: str, metadata: pq.FileMetaData) -> None:
    if metadata.num_rows > MOST_ROWS:
        raise InputError(f"{path}: has {metadata.num_rows:,} rows, at most {MOST_ROWS:,} are read")


def find_columns(path: str) -> Columns:
    """Find the columns of images and labels.

    Returns:
        The names of the columns.

    Raises:
        InputError: If the file is no Parquet file, or has no column of image bytes.
    """
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from error
    names = schema.names
    holds_bytes = [name for name in names if _holds_bytes(schema.field(name).type)]
    image = _choose(holds_bytes, IMAGE_COLUMNS)
    label = next((name for name in LABEL_COLUMNS if name in names), None)
    if image is None:
        raise InputError(f"{path}: has no column of image bytes; has {', '.join(names)}")
    paths = [name for name in ("filename", "file_name", "path") if name in names]
    return Columns(image, label, paths[0] if paths else None)


def column_names(path: str) -> list[str]:
    """Return the names of all columns of a file that `find_columns` has read."""
    return list(pq.read_schema(path).names)


def _choose(found: Sequence[str], preferred: Sequence[str]) -> str | None:
    return next((name for name in preferred if name in found), found[0] if len(found) == 1 else None)


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        fields = [kind.field(n) for n in range(kind.num_fields)]
        return any(field.name == "bytes" and _is_binary(field.type) for field in fields)
    return _is_binary(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def read_labels(paths: Sequence[str], column: str) -> list[Any]:
    """Read the label column of several files, one after the other.

    Returns:
        The labels, one per row.

    Raises:
        InputError: If a file has no such column, or a label is missing.
    """
    labels: list[Any] = []
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                _require_rows(path, file.metadata)
                labels += _bounded(file, range(file.metadata.num_row_groups), column).to_pylist()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({str(error).splitlines()[0]})") from error
        except (KeyError, IndexError, UnicodeDecodeError, pa.ArrowException) as error:
            raise InputError(f"{path}: has no column {column!r} that can be read") from error
    if None in labels:
        raise InputError(f"{paths[0]}: column {column!r} has no value in row {labels.index(None)}")
    return labels


def read_paths(paths: Sequence[str], columns: Columns) -> list[str] | None:
    """Read the images' own paths where the files have them, without reading the images; else None."""
    names: list[str] = []
    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                groups = range(file.metadata.num_row_groups)
                column = _bounded(file, groups, columns.path or f"{columns.image}.path")
        except (OSError, KeyError, IndexError, pa.ArrowException):
            return None
        names += [value["path"] if isinstance(value, dict) else value for value in column.to_pylist()]
    return None if None in names else names


def label_names(path: str, column: str) -> list[str] | None:
    """Return the class names that Hugging Face's metadata gives for a column of whole numbers, if any."""
    metadata = pq.read_schema(path).metadata or {}
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return [str(name) for name in features[column]["names"]]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
