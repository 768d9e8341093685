"""A user's own Parquet files: the same images as from a folder, and what is said of each fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.support.layouts import parquet, put
from tests.trainables.data.own_data import CLASSES, content, dataset, images, listed, silent
from trainables.data import BenchmarkRef, get_source
from trainables.data.dataset import dataset_of
from trainables.data.disk.decoding import encode_png
from trainables.data.disk.parquet import label_names, parquet_images
from trainables.data.disk.parquet_layout import find_in
from trainables.data.disk.passes import stored
from trainables.data.splits import SPLIT_NAMES
from trainables.errors import InputError


def test_parquet_is_the_same_as_the_folder(tmp_path: Path) -> None:
    put(tmp_path / "folder", images())
    parquet(tmp_path / "one" / "all.parquet", listed()[::-1], list(CLASSES))
    assert content(dataset(tmp_path / "one", "parquet").listing()) == content(dataset(tmp_path / "folder").listing())
    assert get_source(f"parquet:{tmp_path}/one?tasks=2").class_names == CLASSES
    assert get_source(f"parquet:{tmp_path}/one/all.parquet?tasks=2").class_names == CLASSES


def test_parquet_with_splits_and_with_names_as_labels(tmp_path: Path) -> None:
    for part, numbers in (("train", range(4)), ("test", range(4, 6))):
        found = listed(numbers)
        table = pa.table({"img": [r["bytes"] for r in found], "class": [CLASSES[r["label"]] for r in found]})
        (tmp_path / part).mkdir()
        pq.write_table(table, tmp_path / part / "0.parquet", row_group_size=3)
    source = get_source(f"parquet:{tmp_path}?tasks=2")
    assert source.class_names == CLASSES and len(source.load("train")[1]) == 16 and len(source.load("test")[1]) == 8
    train, labels = source.load("train")
    assert torch.equal(stored(train).image(9), stored(train).image(9)) and labels.tolist() == sorted(labels.tolist())


@pytest.mark.parametrize(
    "names", [("Train", "Test"), ("train0", "test0"), ("training", "testing"), ("a-TRAIN", "a-TEST")]
)
def test_a_split_is_known_by_any_usual_form_of_its_name(names: tuple[str, str], tmp_path: Path) -> None:
    for name, numbers in zip(names, (range(5), range(5, 6)), strict=True):
        parquet(tmp_path / f"{name}.parquet", listed(numbers), list(CLASSES))
    source = get_source(f"parquet:{tmp_path}?tasks=2")
    assert [len(source.load(part)[1]) for part in SPLIT_NAMES] == [20, 4]


def test_a_file_of_no_split_beside_others_is_refused(tmp_path: Path) -> None:
    for name in ("train", "extra", "test"):
        parquet(tmp_path / f"{name}.parquet", listed(), list(CLASSES))
    with pytest.raises(InputError, match=f"^parquet:{tmp_path}: 'extra.parquet' lies beside test and train; name it "):
        get_source(f"parquet:{tmp_path}?tasks=2")


def test_a_file_without_the_column_of_images_is_refused(tmp_path: Path) -> None:
    for name, columns in {"test": ("image",), "train-0": ("img",), "train-1": ("image", "image")}.items():
        images, labels = ([row[key] for row in listed()] for key in ("bytes", "label"))
        table = pa.Table.from_arrays([*[pa.array(images)] * len(columns), pa.array(labels)], [*columns, "label"])
        pq.write_table(table, tmp_path / f"{name}.parquet")
    pq.write_table(pa.table({"image": ["no bytes"] * 4, "label": range(4)}), tmp_path / "train-2.parquet")
    for wrong in ("train-0", "train-1", "train-2"):
        with pytest.raises(InputError, match=f"{wrong}.parquet: has no column 'image' of image bytes; has im"):
            get_source(f"parquet:{tmp_path}?tasks=2").load("train")
        (tmp_path / f"{wrong}.parquet").unlink()


@pytest.mark.parametrize("struct", [False, True])
def test_names_of_columns_may_have_dots_and_those_of_files_capitals(struct: bool, tmp_path: Path) -> None:
    put(tmp_path / "folder", images())
    found = listed()[::-1]
    pixels, paths = ([row[key] for row in found] for key in ("bytes", "path"))
    held = [{"bytes": each, "path": path} for each, path in zip(pixels, paths, strict=True)] if struct else pixels
    columns = {"my.image": held, "my.label": [CLASSES[row["label"]] for row in found]} | (
        {} if struct else {"path": paths}
    )
    pq.write_table(pa.table(columns), tmp_path / "all.PARQUET")
    ref = BenchmarkRef.parse(f"parquet:{tmp_path}?label_column=my.label")
    assert content(dataset_of(ref).listing()) == content(dataset(tmp_path / "folder").listing())


def test_images_without_paths_are_split_in_the_order_of_their_rows(tmp_path: Path) -> None:
    found = listed()
    columns = {"image": [row["bytes"] for row in found], "label": [CLASSES[row["label"]] for row in found]}
    names = [f"{row:03}.png" for row in range(len(found))]
    some = [None if row == 5 else names[-row] for row in range(len(found))]
    for name, paths in (("bare", {}), ("named", {"path": names}), ("partly", {"path": some})):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(columns | paths), tmp_path / name / "all.parquet")
    bare, *others = (content(dataset(tmp_path / name, "parquet").listing()) for name in ("bare", "named", "partly"))
    assert others == [bare, bare]


def test_files_with_other_class_names_are_refused(tmp_path: Path) -> None:
    parquet(tmp_path / "train.parquet", listed(), list(CLASSES))
    parquet(tmp_path / "test.parquet", listed(), list(CLASSES[::-1]))
    source = get_source(f"parquet:{tmp_path}?tasks=2")
    with pytest.raises(InputError, match="test.parquet: column 'label' has other class names than in .*train.parquet"):
        source.load("test")


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (["a", "a", "b", "c"], "the names of classes must be different, 'a' is there twice$"),
        (
            ["K\u00e4fer", "Ka\u0308fer", "b", "c"],
            ".* different, 'Ka\u0308fer' is there twice in two Unicode forms;",
        ),
        (["a", "", "b", "c"], "the name of a class must not be empty$"),
        (["a", "b\nc", "d", "e"], r"the name of a class must be a line of printable characters, got 'b\\nc'$"),
    ],
)
def test_names_that_nothing_later_can_read_are_refused(names: list[str], fault: str, tmp_path: Path) -> None:
    parquet(tmp_path / "all.parquet", listed(), names)
    with pytest.raises(InputError, match=f"^{tmp_path}: {fault}"):
        get_source(f"parquet:{tmp_path}?tasks=2")


@pytest.mark.parametrize(
    ("file", "wrong", "fault"),
    [
        ("test-1", None, "column 'label' has no value in row 1$"),
        ("train-1", None, "column 'label' has no value in row 1$"),
        ("test-1", "z", "label in row 1 must be a class of the training part"),
    ],
)
def test_a_wrong_label_is_told_by_its_own_file_and_row(
    file: str, wrong: str | None, fault: str, tmp_path: Path
) -> None:
    images = [row["bytes"] for row in listed()][:4]
    for name, labels in {"train-0": "abab", "test-0": "abab", file: ["a", wrong, "b", "a"]}.items():
        pq.write_table(pa.table({"image": images, "label": list(labels)}), tmp_path / f"{name}.parquet")
    with pytest.raises(InputError, match=f"{file}.parquet: {fault}"):
        get_source(f"parquet:{tmp_path}?tasks=1").load("test")


@pytest.mark.parametrize(
    ("labels", "wrong"), [([0, 4], "row 1 must .*, got 4"), ([1.0, 0.0], "row 0 must .*, got 1.0")]
)
def test_labels_beside_declared_classes_are_whole_numbers_of_them(
    labels: list[Any], wrong: str, tmp_path: Path
) -> None:
    parquet(tmp_path / "train.parquet", listed(), list(CLASSES))
    pq.write_table(pa.table({"image": [b"x", b"x"], "label": labels}), tmp_path / "test.parquet")  # declares none
    with pytest.raises(InputError, match=f"test.parquet: label in {wrong.replace('.*', 'be from 0 to 3')}$"):
        get_source(f"parquet:{tmp_path}?tasks=2").load("test")


@pytest.mark.parametrize("nothing", [b"", None])
def test_a_row_without_bytes_is_told(nothing: bytes | None, tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": pa.array([nothing], pa.binary())}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a.parquet row 0: cannot be read \(the row holds no bytes\)$"):
        parquet_images([str(tmp_path / "a.parquet")], "image").image(0)


def test_a_file_without_rows_has_no_image_of_its_classes(tmp_path: Path) -> None:
    parquet(tmp_path / "all.parquet", [], list(CLASSES))
    with pytest.raises(InputError, match="class 'bat' has no image in the train part"):
        get_source(f"parquet:{tmp_path}?tasks=2").load("train")


@pytest.mark.parametrize(
    "text", ["{", '{"info": []}', '{"info": {"features": {"label": {"names": null}}}}', "[" * 100_000]
)
def test_metadata_of_another_form_name_no_class(text: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"label": [0]}).replace_schema_metadata({"huggingface": text}), tmp_path / "x.parquet")
    assert label_names(str(tmp_path / "x.parquet"), "label") is None


def test_the_column_of_labels_can_be_chosen(tmp_path: Path) -> None:
    columns = {"image": [r["bytes"] for r in listed()], "label": [r["label"] for r in listed()]}
    coarse = ["small" if row["label"] < 2 else "large" for row in listed()]
    pq.write_table(pa.table({**columns, "size": coarse}), tmp_path / "a.parquet")
    text = f"parquet:{tmp_path}?tasks=1&label_column=size"
    source = get_source(text)
    assert source.class_names == ("large", "small") and source.name == text
    assert sorted(source.load("train")[1].tolist() + source.load("test")[1].tolist()) == [0] * 12 + [1] * 12
    assert get_source(f"parquet:{tmp_path}?tasks=2").class_names == tuple("0123")
    pq.write_table(pa.table({"image": columns["image"], "R&D? 50%26": coarse}), tmp_path / "a.parquet")
    odd = BenchmarkRef.parse(f"parquet:{tmp_path}?tasks=1").with_options(label_column="R&D? 50%26")
    assert BenchmarkRef.parse(str(odd)) == odd and get_source(str(odd)).class_names == ("large", "small")
    assert BenchmarkRef.parse("parquet:/x?label_column=c%20d&tasks=2").label_column == "c%20d"
    with pytest.raises(InputError, match=r"label_column must be the name of a column, with %3F for \?, got 'x\?y'$"):
        BenchmarkRef.parse("parquet:/x?label_column=x?y")
    pq.write_table(pa.table({**columns, "size": coarse}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="--label-column colour: .*a.parquet has no such column; it has image, label,"):
        get_source(f"parquet:{tmp_path}?tasks=1&label_column=colour")
    for other in (f"folder:{tmp_path}?label_column=size", "digits?label_column=size", "mit67?label_column=size"):
        with pytest.raises(InputError, match="label_column is for Parquet files"):
            get_source(other)


def test_what_was_prepared_of_one_file_or_column_is_not_taken_for_another(tmp_path: Path) -> None:
    columns = {"image": [r["bytes"] for r in listed()], "label": [r["label"] for r in listed()]}
    for name in ("a", "b"):
        sizes = dict.fromkeys(("size", "size/of", "size-of"), columns["label"])
        pq.write_table(pa.table({**columns, **sizes}), tmp_path / f"{name}.parquet")
    of = ("?label_column=size/of", "?label_column=size-of")
    texts = ("/a.parquet", "/a.parquet?label_column=size", "/b.parquet", "", "?label_column=size", *of)
    made = [dataset_of(BenchmarkRef.parse(f"parquet:{tmp_path}{text}")) for text in texts]
    for k in (0, 5, 4):
        made[k].prepare("parquet", silent)
    assert [each.manifest() is not None for each in made] == [True, False, False, False, True, True, False]
    assert all(len(each.prepared.relative_to(tmp_path).parts) == 3 for each in made)
    file = dataset_of(BenchmarkRef.parse(f"parquet:{tmp_path}/a.parquet.size"))
    assert file.prepared != made[1].prepared


@pytest.mark.parametrize(("bound", "kept"), [("&max_image_bytes=5000", 23), ("", 24)])
def test_large_images_in_parquet_files_are_left_out_by_the_bound(bound: str, kept: int, tmp_path: Path) -> None:
    found = listed()
    found[0]["bytes"] += bytes(5000)
    parquet(tmp_path / "all.parquet", found, list(CLASSES))
    source = get_source(f"parquet:{tmp_path}?tasks=2&skip_broken=yes{bound}")
    assert sum(len(source.load(part)[1]) for part in SPLIT_NAMES) == kept


def test_labels_behind_a_class_that_is_left_out_move_up(tmp_path: Path) -> None:
    parquet(tmp_path / "all.parquet", listed(), list(CLASSES))
    whole, left = dataset(tmp_path, "parquet").find(), find_in([str(tmp_path / "all.parquet")], tmp_path, drop=_second)
    assert (whole.class_names, left.class_names) == (CLASSES, ("bat", "dog", "elk"))
    moved = {0: 0, 2: 1, 3: 2}
    before, after = ([image for rows in content(each).values() for image in rows] for each in (whole, left))
    assert sorted(after) == sorted((moved[c], pixels) for c, pixels in before if c != 1)


def _second(names: tuple[str, ...]) -> str:
    return names[1]


def test_the_digest_of_some_rows_is_of_file_column_and_rows(tmp_path: Path) -> None:
    images = [row["bytes"] for row in listed()]
    for name in ("a", "b"):
        pq.write_table(pa.table({"image": images, "thumbnail": images}), tmp_path / f"{name}.parquet")
    digests = [
        parquet_images([str(tmp_path / f"{name}.parquet")], column, np.array(rows)).digest
        for name, column, rows in (
            ("a", "image", [0, 1]),
            ("b", "image", [0, 1]),
            ("a", "thumbnail", [0, 1]),
            ("a", "image", [1, 0]),
        )
    ]
    assert len(set(digests)) == 4


@pytest.mark.parametrize("rows", [2, 3])
def test_a_file_that_is_replaced_is_read_anew(rows: int, tmp_path: Path) -> None:
    for count, grey in ((2, 10), (rows, 200)):
        content = [encode_png(torch.full((3, 8, 8), grey, dtype=torch.uint8))] * count
        pq.write_table(pa.table({"image": content}), tmp_path / "new")
        (tmp_path / "new").replace(tmp_path / "a.parquet")
        found = parquet_images([str(tmp_path / "a.parquet")], "image")
        assert [int(found.image(row).max()) for row in range(len(found))] == [grey] * count


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"text": ["a"], "label": [0]}, "has no column of image bytes; has text, label"),
        ({"image": [{"thumbnail": b"a"}], "label": [0]}, "has no column of image bytes; has image, label"),
        ({"image": [b"a"], "name": ["x"]}, "has no column of labels"),
        ({"image": pa.array([b"a"], pa.large_binary()), "name": ["x"]}, "has no column of labels"),
        ({"image": [b"a"], "label": pa.array([b"\xff"]).view(pa.string())}, "has no column 'label' that can be read"),
        ({}, r"a.parquet: cannot be read \(Parquet"),
        (None, "holds no .parquet file"),
    ],
)
def test_faults_of_parquet(table: dict[str, Any] | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder; if the images of a run have moved, make a link"):
        get_source(f"parquet:{tmp_path}/none?tasks=2")
    if table:
        pq.write_table(pa.table(table), tmp_path / "a.parquet")
    elif table is not None:
        (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match=message):
        get_source(f"parquet:{tmp_path}?tasks=2")
