"""Archives, lists and prepared forms in a benchmark's folder: bounded, never code, never a write elsewhere."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.tausearch.security.conftest import Refused
from tests.tausearch.security.test_bounds import MEGABYTE, little_memory
from trainables.data import get_source
from trainables.data.dataset import dataset_of
from trainables.data.disk.arrays import unpickle
from trainables.data.disk.passes import unreadable_rows
from trainables.data.disk.tree import ZipMember, open_tree
from trainables.data.reference import BenchmarkRef
from trainables.errors import InputError

GIGABYTE = 2**30


@pytest.fixture
def folder(letters: Path, tmp_path: Path) -> Path:
    """A copy of the letters, to be edited."""
    return Path(shutil.copytree(letters, tmp_path / "sent", ignore=shutil.ignore_patterns("tausearch-prepared")))


def sparse(path: Path, head: bytes, size: int) -> None:
    path.write_bytes(head)
    os.truncate(path, size)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_large_extended_header_of_a_tar_file(kind: bytes, tmp_path: Path) -> None:
    member = tarfile.TarInfo("x")
    member.type, member.size = kind, 3 * GIGABYTE
    sparse(tmp_path / "x.tar", member.tobuf(tarfile.GNU_FORMAT), 3 * GIGABYTE + 4096)
    with little_memory(100 * MEGABYTE), pytest.raises(InputError, match="an extended header has 3,221,225,472 bytes"):
        open_tree(tmp_path)


def test_a_length_that_no_number_holds_in_a_tar_file(tmp_path: Path) -> None:
    record = b"99999999999999999999 path=x\n"
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.XHDTYPE, len(record)
    (tmp_path / "x.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + record.ljust(512, b"\0") + bytes(2048))
    with pytest.raises(InputError, match="cannot be read as an archive"):
        open_tree(tmp_path)


def test_a_large_directory_of_a_zip_file(tmp_path: Path) -> None:
    size = 3 * GIGABYTE
    sparse(tmp_path / "x.zip", b"", size)
    with (tmp_path / "x.zip").open("ab") as file:
        file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, size, 0, 0))
    with little_memory(100 * MEGABYTE), pytest.raises(InputError, match="its list of members has"):
        open_tree(tmp_path)


@pytest.mark.parametrize("method", [0, 8])
def test_a_member_that_is_longer_than_its_content(method: int, tmp_path: Path) -> None:
    sparse(tmp_path / "x.zip", b"PK\3\4" + bytes(26), 3 * GIGABYTE)
    with little_memory(100 * MEGABYTE), pytest.raises(OSError, match="broken zip member"):
        ZipMember(str(tmp_path / "x.zip"), 0, 3 * GIGABYTE - 30, method, 100, 0).read()


def test_a_large_list_of_images(tmp_path: Path) -> None:
    sparse(tmp_path / "images.txt", b"", 3 * GIGABYTE)
    with little_memory(100 * MEGABYTE), pytest.raises(InputError, match="at most 67,108,864 are read"):
        open_tree(tmp_path).text("images.txt")


class LargeArray:
    def __reduce__(self) -> tuple[Any, ...]:
        return np.ndarray, ((GIGABYTE,), "O")


def test_a_pickle_of_arrays_takes_no_memory_of_its_choice() -> None:
    with little_memory(100 * MEGABYTE):
        for content in (pickle.dumps(LargeArray()), b"\x80\x02Nr\xff\xff\xff\x7f."):  # the number of a memo
            with pytest.raises(InputError) if b"ndarray" in content else little_memory(100 * MEGABYTE):
                unpickle(content, "sent")
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert (unpickle(pickle.dumps(array, protocol=2), "own") == array).all()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"fine_labels": [0, -1]}, "expected 100, got -1\n"),
        ({"fine_labels": [0, 2**40]}, "must be a list of whole numbers"),
        ({"fine_labels": ["a", "b"]}, "must be a list of whole numbers"),
        ({"fine_labels": [0, True]}, "must be a list of whole numbers"),
        ({"fine_labels": [0]}, "must hold rows of 3,072 bytes, one per label, got (2, 3072)"),
        ({"data": np.zeros((2, 32), dtype=np.uint8)}, "must hold rows of 3,072 bytes, one per label, got (2, 32)"),
        ({"data": np.zeros((2, 3072))}, "must be an array of bytes"),
        ({"data": ["a", [1]]}, "must be an array of bytes"),
    ],
)
def test_fields_of_the_pickle_are_checked(change: dict[str, Any], why: str, refused: Refused, tmp_path: Path) -> None:
    there = tmp_path / "cifar100" / "cifar-100-python"
    there.mkdir(parents=True)
    content = {"data": np.zeros((2, 3072), dtype=np.uint8), "fine_labels": [0, 1], **change}
    names = {"fine_label_names": [b"c%d" % n for n in range(100)]}
    for name, fields in (("meta", names), ("train", content), ("test", content)):
        (there / name).write_bytes(pickle.dumps({key.encode(): value for key, value in fields.items()}))
    assert why in refused("data", "check", "cifar100", "--partial", "--data-root", str(tmp_path))


def test_the_bound_of_an_image_can_be_moved(folder: Path) -> None:
    dataset = dataset_of(BenchmarkRef.parse(f"folder:{folder}?max_image_bytes=100"))
    images, _ = dataset.listing().load("test")
    rows = images.take(torch.tensor([1]))
    with pytest.raises(InputError, match="at most 100 are read"):
        pickle.loads(pickle.dumps(rows)).image(0)  # as in a worker
    with pytest.raises(InputError, match="max_image_bytes is for images on disk"):
        get_source("digits?max_image_bytes=100")


def prepared(folder: Path) -> Path:
    dataset = dataset_of(BenchmarkRef(name=f"folder:{folder}"))
    dataset.prepare("array", lambda *_: lambda count: None)
    return dataset.prepared


def change_pixels(there: Path) -> None:
    pixels = there / "train-pixels.npy"
    np.save(pixels, np.zeros(10, dtype=np.uint8))
    manifest = json.loads((there / "manifest.json").read_text())
    manifest["parts"]["train"]["files"][pixels.name]["bytes"] = pixels.stat().st_size
    (there / "manifest.json").write_text(json.dumps(manifest))


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda there: (there / "manifest.json").write_text("[" * 100_000), "cannot be read"),
        (lambda there: sparse(there / "manifest.json", b"", 3 * GIGABYTE), "cannot be read"),
        (lambda there: make_fifo(there / "manifest.json"), "cannot be read"),
        (change_pixels, "names pixels that train-pixels.npy does not have"),
    ],
)
def test_a_prepared_form_is_checked(change: Callable[[Path], Any], why: str, folder: Path, refused: Refused) -> None:
    change(prepared(folder))
    with little_memory(100 * MEGABYTE):
        assert why in refused("data", "check", f"folder:{folder}?tasks=2")


@pytest.mark.parametrize("link", ["tausearch-prepared", "tausearch-prepared/v1"])
def test_no_link_leads_a_preparation_out_of_the_folder(
    link: str, folder: Path, tmp_path: Path, refused: Refused
) -> None:
    (tmp_path / "mine").mkdir()
    (folder / link).parent.mkdir(exist_ok=True)
    (folder / link).symlink_to(tmp_path / "mine")
    assert f"{link}: is a link" in refused("data", "prepare", f"folder:{folder}")
    assert list((tmp_path / "mine").iterdir()) == []


def test_the_note_of_unreadable_images_follows_no_link(folder: Path, tmp_path: Path) -> None:
    dataset = dataset_of(BenchmarkRef(name=f"folder:{folder}"))
    images, _ = dataset.unchecked().load("test")
    note, mine = dataset.note("test"), tmp_path / "mine.txt"
    mine.write_text("mine")
    note.parent.mkdir(parents=True)
    note.symlink_to(mine)
    assert unreadable_rows(images, note, lambda count: None) == {}  # type: ignore[arg-type]  # they are on disk
    assert mine.read_text() == "mine" and not note.is_symlink()
