"""Which of several files and columns are read, what is no file, and files that are larger than they look."""

from __future__ import annotations

import io
import os
import struct
import tarfile
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.support.layouts import encoded, put
from tests.trainables.data.own_data import dataset, images
from trainables.data import get_source
from trainables.data.disk import arrays
from trainables.data.disk.arrays import NpzImages
from trainables.data.disk.decoding import MOST_PIXELS, decode, read_image_file, size
from trainables.data.disk.listing import ImageFiles, from_split_file, seeded_split
from trainables.data.disk.parquet import find_columns
from trainables.data.disk.passes import longest_side, sizes_or_faults
from trainables.data.disk.tree import DiskFile, open_tree
from trainables.data.splits import SPLIT_NAMES
from trainables.errors import InputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "own", images(5))
    return tmp_path / "own"


def opened(path: Path, kind: str = "folder") -> None:
    get_source(f"{kind}:{path}?tasks=2").load("train")


def test_the_least_deep_file_and_the_extracted_file_are_taken(tmp_path: Path) -> None:
    put(tmp_path, {"b/deep/list.txt": b"deep", "b/list.txt": b"b", "c/list.txt": b"c", "x/1.png": b"extracted"})
    put(tmp_path, {"x/1.png": b"packed", "x/2.png": b"first" * 20_000}, "m.tar")
    put(tmp_path, {"x/2.png": b"second", "b/b/deep/0.png": b""}, "n.zip")
    tree = open_tree(tmp_path)
    assert (tree.find("list.txt"), tree.folder_of("deep"), tree.find("none")) == ("b/list.txt", "b/deep", None)
    assert (tree.content("x/1.png"), tree.content("x/2.png")) == (b"extracted", b"first" * 20_000)


def put_tar(file: Path, dotted: str, links: dict[str, tuple[bytes, str]]) -> None:
    """Write a tar with the files `a/1` and `a/.2`, both `one`, and links."""
    with tarfile.open(file, "w") as tar:
        for name in ("a/1", "a/.2"):
            member = tarfile.TarInfo(f"{dotted}{name}")
            member.size = 3
            tar.addfile(member, io.BytesIO(b"one"))
        for name, (kind, target) in links.items():
            link = tarfile.TarInfo(f"{dotted}{name}")
            link.type, link.linkname = kind, target
            tar.addfile(link)


@pytest.mark.parametrize("dotted", ["", "./"])
def test_links_in_a_tar_are_the_files_that_they_lead_to(dotted: str, tmp_path: Path) -> None:
    links = {"b/sym": (tarfile.SYMTYPE, "../a/1"), "b/hard": (tarfile.LNKTYPE, f"{dotted}a/1")}
    links |= {"b/link": (tarfile.SYMTYPE, "sym"), "b/hidden": (tarfile.SYMTYPE, "../a/.2")}
    links |= {"b/.unseen": (tarfile.SYMTYPE, "nothing")}
    put_tar(tmp_path / "a.tar", dotted, links)
    tree = open_tree(tmp_path)
    seen = ("a/1", "b/hard", "b/hidden", "b/link", "b/sym")
    assert {path: tree.content(path) for path in tree.entries} == dict.fromkeys(seen, b"one")


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_members_with_one_name_the_last_is_taken_as_by_a_program_that_extracts_them(
    kind: str, tmp_path: Path
) -> None:
    for mode, content in (("w", b"old"), ("a", b"new")):
        if kind == "zip":
            with zipfile.ZipFile(tmp_path / "a.zip", mode) as zipped:  # type: ignore[call-overload]
                zipped.writestr("c/1", content)
            continue
        with tarfile.open(tmp_path / "a.tar", mode) as tar:  # type: ignore[call-overload]
            for name, link in (("c/1", None), ("c/hard", "c/1"), ("c/1", "c/1")):  # tar writes a file again so
                member = tarfile.TarInfo(name)
                member.size = 0 if link else 3
                member.type, member.linkname = (tarfile.LNKTYPE, link) if link else (tarfile.REGTYPE, "")
                tar.addfile(member, None if link else io.BytesIO(content))
    tree = open_tree(tmp_path)
    assert {tree.content(path) for path in tree.entries} == {b"new"} and "c/1" in tree.entries


@pytest.mark.parametrize("target", ["/etc/passwd", "../../a/1", "../a", "itself", "gone"])
def test_a_link_in_a_tar_that_leads_to_no_file_of_it_is_refused(target: str, tmp_path: Path) -> None:
    put_tar(tmp_path / "a.tar", "", {"b/itself": (tarfile.SYMTYPE, target)})
    with pytest.raises(InputError, match=r"a\.tar: 'b/itself' is a link to no file of the archive; extract it or move"):
        open_tree(tmp_path)


@pytest.mark.parametrize("archive", [None, "a.tar", "a.zip"])
def test_files_are_in_the_order_of_their_paths_wherever_they_lie(archive: str | None, tmp_path: Path) -> None:
    put(tmp_path, {name: b"" for name in ("c/1", "b/2/x", "b/1", "b.txt", "a/2", "a/10")}, archive)
    assert list(open_tree(tmp_path).entries) == ["a/10", "a/2", "b.txt", "b/1", "b/2/x", "c/1"]


def test_an_image_that_was_written_again_changes_the_digest_though_its_name_and_size_are_the_same(folder: Path) -> None:
    def digest(modified: int) -> str:
        for path in filter(Path.is_file, folder.rglob("*")):
            os.utime(path, (modified, modified))
        read, _ = get_source(f"folder:{folder}?tasks=2").load("train")
        assert not isinstance(read, torch.Tensor)
        return read.digest

    assert digest(1000) == digest(1000) != digest(2000)


@pytest.mark.parametrize(
    ("columns", "image", "label", "path"),
    [
        ("thumbnail:bytes img:bytes fine_label label path filename", "img", "label", "filename"),
        ("bytes:bytes image:bytes class labels path", "image", "labels", "path"),
        ("picture:bytes target", "picture", "target", None),
        ("picture:bytes thumbnail:bytes target", None, None, None),
    ],
)
def test_the_best_known_columns_are_taken(
    columns: str, image: str | None, label: str | None, path: str | None, tmp_path: Path
) -> None:
    kinds = {name: [b"x"] if kind else ["x"] for name, _, kind in (each.partition(":") for each in columns.split())}
    pq.write_table(pa.table(kinds), tmp_path / "a.parquet")
    if image is None:
        with pytest.raises(InputError, match="has no column of image bytes; has picture, thumbnail, target"):
            find_columns(str(tmp_path / "a.parquet"))
    else:
        found = find_columns(str(tmp_path / "a.parquet"))
        assert (found.image, found.label, found.path) == (image, label, path)


@pytest.mark.parametrize(
    ("files", "counts"),
    [
        ({"train/a": 8, "val/b": 4, "valid/b": 4, "validation/b": 4}, [8, 12]),
        ({"train/a": 8, "dev/b": 12, "test/c": 16}, [20, 16]),
        ({"train/files/test/c": 16, "train/a": 8}, [8, 16]),  # the last word counts
        ({"train/test-c": 16, "train/a": 8}, [8, 16]),
        ({"trainer": 8, "contest": 16}, [16, 8]),  # 80 %, rounded down, of 6 images of each class
    ],
)
def test_names_of_parquet_files_tell_the_part(files: dict[str, int], counts: list[int], tmp_path: Path) -> None:
    for name, count in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        table = pa.table({"image": [b"x"] * count, "label": [row % 4 for row in range(count)]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    source = get_source(f"parquet:{tmp_path}?tasks=2")
    assert [len(source.load(part)[1]) for part in SPLIT_NAMES] == counts
    if "train/a" in files:  # before those of validation
        assert source.load("train")[0].name(0) == f"{tmp_path}/train/a.parquet row 0"  # type: ignore[union-attr]


def test_the_longest_side_is_that_of_any_readable_image(folder: Path) -> None:
    (folder / "bat" / "0.png").write_bytes(b"broken")
    found, _ = dataset(folder).find().load("train")
    narrow, wide = ([row for row in range(len(found)) if int(Path(found.name(row)).stem) % 2 == odd] for odd in (0, 1))  # type: ignore[union-attr]
    mixed = found.take(torch.tensor([*narrow, wide[0], narrow[-1]]))  # type: ignore[union-attr]
    assert longest_side(mixed, 100) == max(found.image(wide[0]).shape) > max(found.image(narrow[-1]).shape)  # type: ignore[union-attr]
    assert longest_side(torch.zeros(2, 1, 5, 7, dtype=torch.uint8), 1) == 7


def test_what_is_no_file_is_named(folder: Path) -> None:
    opened(folder)
    odd = folder / "bat" / "odd.png"
    for make, message in (
        (lambda: odd.symlink_to("nowhere"), "odd.png: is a link to nothing; remove it"),
        (lambda: os.mkfifo(odd), "odd.png: is no file and no folder"),
        (lambda: odd.symlink_to("/dev/zero"), "odd.png: is a link to nothing|odd.png: is no file"),
        (lambda: odd.symlink_to(folder), "odd.png: is a link to a folder that it lies in"),
        (lambda: odd.symlink_to(odd), r"odd.png: cannot be listed \(Too many levels of symbolic links\)"),
    ):
        make()
        with pytest.raises(InputError, match=message):
            opened(folder)
        odd.unlink()
    (folder / "bat" / "4.png").unlink()
    (folder / "bat" / "4.png").symlink_to(folder / "cat" / "4.png")
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


def test_a_side_may_be_two_hundred_times_the_other() -> None:
    for width, height in ((200, 1), (1, 200)):
        assert size(bomb(width, height), "x") == (height, width)
    for width, height in ((201, 1), (1, 201)):
        for read in (size, decode):
            with pytest.raises(InputError, match=f"is {width} x {height}; a side may be 200 times the other"):
                read(bomb(width, height), "x")


def test_an_image_file_may_have_as_many_bytes_as_the_bound(tmp_path: Path) -> None:
    content = encoded(4, 0, 0)
    (tmp_path / "x.png").write_bytes(content)
    assert torch.equal(read_image_file(tmp_path / "x.png", len(content)), decode(content, "x"))
    with pytest.raises(InputError, match=f"x.png: has {len(content):,} bytes, at most {len(content) - 1:,} are read"):
        read_image_file(tmp_path / "x.png", len(content) - 1)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([True, False] * 10, "must hold whole numbers or names, has bool"),
        ([[1], [2]] * 10, "must hold whole numbers or names, has list"),
        ([1.5, 2.5] * 10, "must hold whole numbers or names, has float"),
        ([None, "a"] * 10, "has no value in row 0"),
        ([], "must hold whole numbers or names, has no rows"),
    ],
)
def test_labels_that_are_none(labels: list[object], said: str, tmp_path: Path) -> None:
    table = pa.table({"image": [encoded(10, 0, 0)] * len(labels), "label": labels})
    if not labels:
        table = table.cast(pa.schema([("image", pa.binary()), ("label", pa.int64())]))
    pq.write_table(table, tmp_path / "own.parquet")
    with pytest.raises(InputError, match=f"own.parquet: column 'label' {said}$"):
        opened(tmp_path / "own.parquet", "parquet")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_of_a_zip_file_are_read_packed_or_not(method: int, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as zipped:
        for name, extra in (("one", b""), ("two", b"\x55\x54\x05\x00\x01abcd")):  # a time, as Info-ZIP writes it
            member = zipfile.ZipInfo(f"x/{name}.txt")
            member.extra = extra
            zipped.writestr(member, name * 50, method)
    tree = open_tree(tmp_path)
    assert [tree.content(f"x/{name}.txt") for name in ("one", "two")] == [b"one" * 50, b"two" * 50]
    (tmp_path / "a.zip").write_bytes(b"\0" + (tmp_path / "a.zip").read_bytes()[1:])
    with pytest.raises(InputError, match=r"x/one.txt: cannot be read \(broken zip member\)$"):
        tree.content("x/one.txt")


@pytest.mark.parametrize(("method", "flags"), [(zipfile.ZIP_LZMA, 0), (zipfile.ZIP_STORED, 1)])
def test_a_member_that_is_encrypted_or_oddly_compressed_is_refused(method: int, flags: int, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr("x/one.txt", "one", method)
    content = bytearray((tmp_path / "a.zip").read_bytes())
    content[content.rfind(b"PK\1\2") + 8] |= flags  # in the list of members
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(InputError, match="a.zip: 'x/one.txt' is encrypted or oddly compressed; extract it"):
        open_tree(tmp_path)


@pytest.mark.parametrize("archive", ["a.tar", "a.zip"])
def test_members_whose_names_lead_out_of_the_archive_are_left_out(archive: str, tmp_path: Path) -> None:
    put(tmp_path, {name: b"" for name in ("/c/1", "../c/1", "c/../../1", "__MACOSX/c/1", ".c/1", "c/1")}, archive)
    assert list(open_tree(tmp_path).entries) == ["c/1"]


def npz(folder: Path, data: np.ndarray, count: int, rows: list[int]) -> NpzImages:
    np.savez(folder / "a.npz", data=data)
    return NpzImages("a.npz", open_tree(folder).entries["a.npz"], count, np.array(rows))


def test_pixels_of_an_npz_file_are_those_of_the_rows_whatever_their_layout(tmp_path: Path) -> None:
    data = np.arange(3 * 4 * 5 * 3, dtype=np.uint8).reshape(3, 4, 5, 3)
    for laid in (data, np.asfortranarray(data)):
        images = npz(tmp_path, laid, 3, [2, 0])
        assert [images.image(row).permute(1, 2, 0).tolist() for row in (0, 1)] == data[[2, 0]].tolist()
        assert images.take(torch.tensor([1])).image(0).permute(1, 2, 0).tolist() == data[0].tolist()
    with mock.patch.object(arrays, "read_npz", wraps=arrays.read_npz) as read:  # once, by however many threads
        assert len(list(sizes_or_faults(npz(tmp_path, data, 3, [0, 1, 2]), lambda count: None))) == 3
    assert read.call_count == 1
    for grey in (data[..., :1], data[..., 0]):
        images = npz(tmp_path, grey, 3, [1])
        assert torch.equal(images.image(0), torch.from_numpy(data[1, ..., 0]).expand(3, 4, 5))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (np.zeros(()), "a.npz: 'data' is one value"),
        (np.zeros((3, 4, 5, 2), np.uint8), r"a.npz row 1: must be uint8 \(h, w, 3\), got uint8 \(4, 5, 2\)"),
        (np.zeros((3, 4, 5, 3)), "a.npz row 1: must be uint8 .*, got float64"),
    ],
)
def test_arrays_that_are_no_images(data: np.ndarray, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        npz(tmp_path, data, 3, [1]).image(0)


@pytest.mark.parametrize("count", [2, 4])
def test_an_npz_file_has_as_many_images_as_labels(count: int, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"a.npz: has {count} labels but 3 images"):
        npz(tmp_path, np.zeros((3, 4, 5, 3), np.uint8), count, [0]).image(0)


def test_a_digest_of_files_is_of_names_sizes_and_times_in_order() -> None:
    one, other = DiskFile("x", 5, 1000), DiskFile("x", 5, 1000)
    first = ImageFiles(("a", "b"), (one, other)).digest
    assert first == ImageFiles(("a", "b"), (replace(one, path="moved"), other)).digest
    changed = [
        (("b", "a"), (one, other)),
        (("a", "b"), (replace(one, size=6), other)),
        (("a", "b"), (one, replace(other, modified=1001))),
        (("a",), (one,)),
    ]
    assert len({first, *(ImageFiles(*each).digest for each in changed)}) == 5


@pytest.mark.parametrize("labels", [[0], [0, 1, 2]])
def test_a_split_file_has_a_label_for_each_image(labels: list[int]) -> None:
    files = {name: DiskFile(name, 1, 1) for name in "ab"}
    images, found = from_split_file(files, ["b", "a"], [1, 0], split_file="train.yaml")
    assert images.names == ("b", "a") and found.tolist() == [1, 0]
    with pytest.raises(InputError, match=f"train.yaml: has 2 images but {len(labels)} labels"):
        from_split_file(files, ["b", "a"], labels, split_file="train.yaml")


def test_a_seeded_split_by_number_leaves_the_rest_for_the_test_and_at_least_one() -> None:
    labels = torch.tensor([0] * 9 + [1] * 4 + [2] * 2)
    for per_class, trains in ((4, [4, 3, 1]), (None, [7, 3, 1])):
        train, test = seeded_split(labels, per_class)
        assert torch.bincount(labels[train]).tolist() == trains
        assert sorted([*train.tolist(), *test.tolist()]) == list(range(15))
