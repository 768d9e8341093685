"""What is too large is one line before memory is taken: sizes come from headers."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tausearch.security.conftest import Refused
from trainables.data import get_source
from trainables.data.disk import parquet
from trainables.errors import InputError

MEGABYTE = 2**20


@contextmanager
def little_memory(most: int) -> Iterator[None]:
    """At most so many bytes more than the process ever had."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before < most


def test_a_sparse_file_is_not_read(exported: Path, refused: Refused, tmp_path: Path) -> None:
    with (tmp_path / "huge.png").open("wb") as file:
        file.truncate(3 * 2**30)
    with little_memory(500 * MEGABYTE):
        err = refused("predict", str(exported / "timm"), "huge.png")
    assert "has 3,221,225,472 bytes, at most 268,435,456 are read" in err


def test_the_bound_can_be_moved(exported: Path, image: str, refused: Refused) -> None:
    err = refused("predict", str(exported / "timm"), image, "--max-image-bytes", "100")
    assert "at most 100 are read" in err


def test_a_fifo_is_no_image(exported: Path, refused: Refused, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.png")
    assert "fifo.png: is no regular file" in refused("predict", str(exported / "timm"), "fifo.png")


def images_of(table: pa.Table, folder: Path) -> str:
    folder.mkdir()
    pq.write_table(table, folder / "train.parquet", compression="zstd", store_schema=False)  # else it says "dictionary"
    return f"parquet:{folder}?tasks=2"


def test_many_copies_of_one_large_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MOST_GROUP", 64 * MEGABYTE)
    value = pa.array([bytes(4 * MEGABYTE)])
    copies = pa.DictionaryArray.from_arrays(pa.array(np.zeros(400, dtype=np.int8)), value)
    labels = [str(n % 4) for n in range(400)]
    text = images_of(pa.table({"image": copies, "label": labels}), tmp_path / "images")
    assert (tmp_path / "images" / "train.parquet").stat().st_size < 20_000
    with little_memory(400 * MEGABYTE):  # all copies take 1.6 GB
        images, _ = get_source(text).load("train")
        for row in range(len(images)):
            with pytest.raises(InputError, match="decodes to more than"):
                images.image(row)  # type: ignore[union-attr]  # they are on disk


def test_many_copies_of_one_large_label(refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MOST_GROUP", 64 * MEGABYTE)
    copies = pa.DictionaryArray.from_arrays(pa.array(np.zeros(400, dtype=np.int8)), pa.array(["x" * 4 * MEGABYTE]))
    text = images_of(pa.table({"image": [b"x"] * 400, "label": copies}), tmp_path / "images")
    with little_memory(400 * MEGABYTE):
        assert "column 'label' decodes to more than" in refused("data", "check", text)


def test_bytes_inside_of_bytes_are_no_images(refused: Refused, tmp_path: Path) -> None:
    table = pa.table({"image": [{"bytes": {"bytes": b"x"}}] * 8, "label": [n % 4 for n in range(8)]})
    assert "has no column of image bytes" in refused("data", "check", images_of(table, tmp_path / "images"))


def test_too_many_rows(refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = parquet.MOST_ROWS + 1
    table = pa.table({"image": pa.nulls(rows, pa.binary()), "label": pa.nulls(rows, pa.int8())})
    text = images_of(table, tmp_path / "images")
    with little_memory(400 * MEGABYTE):
        assert f"has {rows:,} rows" in refused("data", "check", text)
