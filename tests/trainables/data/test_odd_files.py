"""What may lie in a dataset's folder and is no file, and files that are larger than they look."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.layouts import encoded
from trainables.data import get_source
from trainables.data.disk.decoding import MOST_PIXELS, decode, size
from trainables.errors import InputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for label in ("a", "b", "c", "d"):
        (tmp_path / "own" / label).mkdir(parents=True)
        for number in range(5):
            (tmp_path / "own" / label / f"{number}.png").write_bytes(encoded(10, 0, number))
    return tmp_path / "own"


def opened(path: Path, kind: str = "folder") -> None:
    get_source(f"{kind}:{path}?tasks=2").load("train")


def test_what_is_no_file_is_named(folder: Path) -> None:
    opened(folder)
    odd = folder / "a" / "odd.png"
    for make, message in (
        (lambda: odd.symlink_to("nowhere"), "odd.png: is a link to nothing; remove it"),
        (lambda: os.mkfifo(odd), "odd.png: is no file and no folder"),
        (lambda: odd.symlink_to("/dev/zero"), "odd.png: is a link to nothing|odd.png: is no file"),
        (lambda: odd.symlink_to(folder), "odd.png: is a link to a folder that it lies in"),
    ):
        make()
        with pytest.raises(InputError, match=message):
            opened(folder)
        odd.unlink()
    (folder / "a" / "4.png").unlink()
    (folder / "a" / "4.png").symlink_to(folder / "b" / "4.png")
    opened(folder)  # a link to a file is that file


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says that it is large."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_a_picture_of_too_many_pixels_is_refused_by_its_head() -> None:
    assert size(bomb(MOST_PIXELS // 1000, 1000), "x") == (1000, MOST_PIXELS // 1000)
    for read in (size, decode):
        with pytest.raises(InputError, match="image x: cannot be read .has .* pixels, at most 50,000,000"):
            read(bomb(MOST_PIXELS // 1000, 1001), "x")


@pytest.mark.parametrize("labels", [[True, False] * 10, [[1], [2]] * 10, [1.5, 2.5] * 10, [None, "a"] * 10, []])
def test_labels_that_are_none(labels: list[object], tmp_path: Path) -> None:
    table = pa.table({"image": [encoded(10, 0, 0)] * len(labels), "label": labels})
    if not labels:
        table = table.cast(pa.schema([("image", pa.binary()), ("label", pa.int64())]))
    pq.write_table(table, tmp_path / "own.parquet")
    with pytest.raises(InputError, match="own.parquet"):
        opened(tmp_path / "own.parquet", "parquet")
