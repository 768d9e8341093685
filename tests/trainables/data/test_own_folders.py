"""A user's own folders of images: what is read, what is left out, and what is said of each fault."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st

from tests.support.layouts import encoded, parquet, put
from tests.trainables.data.own_data import CLASSES, content, dataset, images, listed, require_usable, silent
from trainables.backbones import Backbone
from trainables.data import BenchmarkRef, build_benchmark, get_source
from trainables.data.dataset import _first_broken, dataset_of
from trainables.data.disk.manifest import PREPARED_FORMS, PreparedForm
from trainables.data.disk.passes import stored
from trainables.data.sources import batch_size_of, epochs_of, steps_of
from trainables.data.splits import SPLIT_NAMES
from trainables.data.transforms.recipes import Recipe
from trainables.errors import InputError


def test_folder_without_a_split(tmp_path: Path) -> None:
    put(tmp_path, images())
    put(tmp_path, {".hidden/x.txt": b"", "Thumbs.db": b"", "bat/.DS_Store": b""})
    source = get_source(f"folder:{tmp_path}?tasks=2")
    assert source.class_names == CLASSES and source.num_tasks == 2
    assert source.transforms == Recipe(test_keep_ratio=True)  # photographs are not squashed
    train, test = (source.load(part)[1] for part in SPLIT_NAMES)
    assert torch.bincount(train).tolist() == [4] * 4 and torch.bincount(test).tolist() == [2] * 4
    again = content(dataset(tmp_path).listing())
    assert again == content(dataset(tmp_path).listing())
    assert not {pixels for _, pixels in again["train"]} & {pixels for _, pixels in again["test"]}


def test_folder_with_a_split(tmp_path: Path) -> None:
    put(tmp_path, images(4, "train/") | images(1, "test/"))
    source = get_source(f"folder:{tmp_path}?classes_per_task=3")
    assert source.num_tasks == 2 and len(source.load("train")[1]) == 16 and len(source.load("test")[1]) == 4
    benchmark = build_benchmark(source, "search", reads=Backbone().input)
    assert [len(task.classes) for task in benchmark.tasks] == [2, 2]


SPLIT = images(4, "train/") | images(1, "test/")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (images() | {"fox/": b""}, "class 'fox' has no image, needs at least 4"),
        (
            images() | {f"fox{n}/": b"" for n in range(5)},
            r"1 to test \(20%\); add images, or move its folder away; too few have also 'fox1', 'fox2', 'fox3', ...",
        ),
        (images() | {f"fox{n}/": b"" for n in range(4)}, "too few have also 'fox1', 'fox2', 'fox3'$"),
        (images() | {"fox/1.png": b"x"}, "'fox' has 1 image, needs at least 4: 2 to train, 1 to validate, 1 to test"),
        (images() | {"cat/notes.txt": b"x"}, "cat: 'notes.txt' is not an image file"),
        (images() | {"cat/noending": b"x"}, r"cat: 'noending' is not an image file \(its ending is none\)"),
        (images() | {"loose.png": b"x"}, "'loose.png' lies beside the class folders"),
        (images() | {"more.zip": b"PK"}, "more.zip: cannot be read as an archive"),
        (images() | {"more.tar.gz": b"x"}, "'more.tar.gz' lies beside the class folders"),
        (images() | {"train/a/1.png": b"x"}, "'bat' lies beside train and test; move it away$"),
        (images(4, "train/"), "has no folder 'test'"),
        (SPLIT | {"train/notes.txt": b"x"}, "train: 'notes.txt' lies beside the class folders"),
        (images(4, "Train/") | images(4, "TEST/"), "the folders 'TEST' and 'Train' must be named test and train"),
        (images(4, "train/") | images(4, "Testing/"), "the folders 'Testing' and 'train' must be named test and train"),
        *(
            (SPLIT | {f"{name}/a/1.png": b"x"}, f"'{name}' lies beside .* belong into train")
            for name in ("val", "valid", "validation", "dev")
        ),
        (SPLIT | {"train/fox/1.png": b"x"}, "class 'fox' has 1 image, needs at"),
        (SPLIT | {f"train/fox/{n}.png": b"x" for n in (1, 2)}, "'fox' has 2 images, needs at least 3: 2 to train, 1"),
        (SPLIT | {"test/fox/1.png": b"x"}, "class 'fox' is in test but not in train$"),
        (
            SPLIT | {"test/B\u00e4r/1.png": b"x"} | {f"train/Ba\u0308r/{n}.png": b"x" for n in range(3)},
            "class 'Ba\u0308r' is in train but not in test in this Unicode form; name both alike",
        ),
        ({"a/1.png": b"x"}, "needs at least 2 class folders, has 1"),
        ({"1.png": b"x"}, "has '1.png' and no class folders; .* name the folder above: folder:/"),
    ],
)
def test_what_does_not_belong_into_a_folder(files: dict[str, bytes], message: str, tmp_path: Path) -> None:
    put(tmp_path, files)
    with pytest.raises(InputError, match=message) as caught:
        get_source(f"folder:{tmp_path}?tasks=2")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("where", ["", "train/"])
def test_a_class_that_an_archive_alone_has_is_not_left_out_in_silence(where: str, tmp_path: Path) -> None:
    put(tmp_path, SPLIT if where else images())
    put(tmp_path / where, images(), "cats.zip")  # beside extracted files
    listed_before = len(get_source(f"folder:{tmp_path}?tasks=2").load("train")[1])
    assert listed_before > 8
    put(tmp_path / where, {"zebra/1.png": b"x"}, "more.zip")
    with pytest.raises(InputError, match=r"'zebra' of more.zip is no folder here; extract it"):
        get_source(f"folder:{tmp_path}?tasks=2")


def test_a_broken_image_whose_name_is_not_utf_8_is_left_out_and_noted(tmp_path: Path) -> None:
    put(tmp_path, images())
    (tmp_path / "cat" / os.fsdecode(b"\xff\xe9.png")).write_bytes(b"no image")
    text = f"folder:{tmp_path}?tasks=2&skip_broken=yes"
    (line,) = require_usable(text, SPLIT_NAMES)
    assert r"cat/\xff\xe9.png: cannot be read" in line and require_usable(text, SPLIT_NAMES) == [line]


def test_a_class_whose_name_is_not_utf_8_is_refused_where_classes_are_read(tmp_path: Path) -> None:
    put(tmp_path, images())
    (tmp_path / "cat").rename(tmp_path / os.fsdecode(b"\xff\xe9"))
    (tmp_path / "bat").rename(tmp_path / "b\u00e4t")
    opened = dataset(tmp_path)
    for read in (opened.listing, lambda: opened.prepare(None, silent)):
        with pytest.raises(InputError, match="the name of a class must be a line of printable characters, got '"):
            read()
    (tmp_path / os.fsdecode(b"\xff\xe9")).rename(tmp_path / "cat")
    assert "b\u00e4t" in dataset(tmp_path).listing().class_names


@pytest.mark.parametrize("name", ["b\u00a0t", "\u0645\u06cc\u200c\u0631\u0648\u062f", "\u732b\u3000\u72ac"])
def test_a_class_name_has_the_spaces_and_joiners_of_any_script(name: str, tmp_path: Path) -> None:
    put(tmp_path, images())
    (tmp_path / "bat").rename(tmp_path / name)
    assert name in dataset(tmp_path).listing().class_names


def test_a_broken_image_is_named_before_anything_runs(tmp_path: Path) -> None:
    put(tmp_path, images(4, "train/") | images(2, "test/") | {"test/cat/1.png": b"no image"})
    text = f"folder:{tmp_path}?tasks=2"
    require_usable(text, ["train"])  # a search does not read the test part
    with pytest.raises(InputError, match=r"image .*test/cat/1.png: cannot be read \(not an image\)"):
        require_usable(text, ["train", "test"])
    (tmp_path / "train" / "dog" / "2.png").write_bytes(encoded(10, 2, 2)[:200])
    with pytest.raises(InputError, match=r"image .*train/dog/2.png: cannot be read"):
        require_usable(text, ["train"])
    with pytest.raises(InputError, match="names every image that cannot be read"):
        dataset(tmp_path).prepare("array", silent)
    assert dataset(tmp_path).manifest() is None


@pytest.mark.parametrize("kind", ["folder", "parquet"])
def test_broken_images_are_left_out_where_that_is_asked_for(kind: str, tmp_path: Path) -> None:
    found = listed()
    found[7]["bytes"] = found[16]["bytes"] = b"no image"
    if kind == "folder":
        put(tmp_path / "data", {f"{CLASSES[row['label']]}/{row['path'][-5:]}": row["bytes"] for row in found})
    else:
        parquet(tmp_path / "data" / "all.parquet", found, list(CLASSES))
    text = f"{kind}:{tmp_path}/data?tasks=2"
    before = {part: get_source(text).load(part) for part in SPLIT_NAMES}
    with pytest.raises(InputError, match="; --skip-broken leaves out what cannot be read"):
        require_usable(text, SPLIT_NAMES)
    left_out = require_usable(f"{text}&skip_broken=yes", SPLIT_NAMES)
    assert len(left_out) == 2 and all("cannot be read (not an image)" in line for line in left_out)
    kept = 0
    for part in SPLIT_NAMES:
        images, labels = get_source(f"{text}&skip_broken=yes").load(part)
        wanted = [row for row in range(len(before[part][1])) if _reads(stored(before[part][0]), row)]
        assert labels.tolist() == before[part][1][wanted].tolist()
        for row, there in enumerate(wanted):
            assert torch.equal(stored(images).image(row), stored(before[part][0]).image(there))
        kept += len(wanted)
    assert kept == 22
    assert require_usable(f"{text}&skip_broken=yes", SPLIT_NAMES, never) == left_out  # the note says it, too


def _reads(images: Any, row: int) -> bool:
    try:
        return images.image(row) is not None
    except InputError:
        return False


def never(name: str, total: int) -> Any:
    pytest.fail(f"{name}: a second look")


def test_what_was_mended_is_found_sound_and_a_class_that_is_all_broken_is_refused(tmp_path: Path) -> None:
    put(tmp_path, images() | {f"cat/{n}.png": b"no image" for n in range(6)})
    text = f"folder:{tmp_path}?tasks=2"
    broken = require_usable(f"{text}&skip_broken=yes", SPLIT_NAMES)
    assert len(broken) == 6
    with pytest.raises(InputError) as caught:
        require_usable(text, SPLIT_NAMES)
    *named, more = str(caught.value).splitlines()
    assert named == broken[:5] and more.startswith(
        "1 more image cannot be read: `tausearch data check` names all; --skip"
    )
    assert _first_broken(broken[1:]) == [*broken[1:5], f"{broken[5]}; --skip-broken leaves out what cannot be read"]
    with pytest.raises(InputError, match="class 'cat' has no image that can be read in the train part"):
        get_source(f"{text}&skip_broken=yes").load("train")
    put(tmp_path, images())
    os.utime(tmp_path / "cat" / "0.png", (1, 1))  # so that it is another file, whatever the clock's resolution
    assert sum(len(get_source(f"{text}&skip_broken=yes").load(part)[1]) for part in SPLIT_NAMES) == 24
    assert require_usable(text, SPLIT_NAMES) == []
    assert require_usable(text, SPLIT_NAMES, never) == []  # every image is looked at once


BOUNDS = (("&max_image_bytes=5000", 23), ("", 24))


@pytest.mark.parametrize("runs", [BOUNDS, BOUNDS[::-1]])
def test_large_images_are_left_out_by_the_bound_of_this_run_not_of_an_earlier_run(
    runs: tuple[tuple[str, int], ...], tmp_path: Path
) -> None:
    put(tmp_path, images() | {"cat/1.png": encoded(10, 1, 1) + bytes(5000)})
    for bound, kept in runs:
        text = f"folder:{tmp_path}?tasks=2&skip_broken=yes{bound}"
        assert len(require_usable(text, SPLIT_NAMES)) == 24 - kept
        assert sum(len(get_source(text).load(part)[1]) for part in SPLIT_NAMES) == kept


@pytest.mark.parametrize("form", PREPARED_FORMS)
def test_what_was_prepared_with_another_bound_is_not_taken(form: PreparedForm, tmp_path: Path) -> None:
    put(tmp_path, images() | {"cat/1.png": encoded(10, 1, 1) + bytes(5000)})
    bounds = {f"folder:{tmp_path}?tasks=2&skip_broken=yes{bound}": kept for bound, kept in BOUNDS}
    for prepared in bounds:
        dataset_of(BenchmarkRef.parse(prepared)).prepare(form, silent)
        for text, kept in bounds.items():
            assert sum(len(get_source(text).load(part)[1]) for part in SPLIT_NAMES) == kept


@given(st.integers(1, 1_000_000))
def test_a_task_has_three_hundred_steps_in_batches_of_an_eighth(count: int) -> None:
    batch = batch_size_of(count)
    steps = steps_of(count, batch)
    epochs = epochs_of(steps)
    assert batch in (8, 16, 32, 64, 128) and (batch == 8 or steps >= 8) and (batch == 128 or count < 16 * batch)
    assert steps * epochs >= 300 and epochs >= 5 and (epochs == 5 or steps * (epochs - 1) < 300)


@pytest.mark.parametrize(
    ("ending", "epochs"), [("tasks=2", 300), ("tasks=1", 150), ("task=bat,cat", 300), ("tasks=2&epochs=3", 3)]
)
def test_a_folder_is_paced_by_its_images(tmp_path: Path, ending: str, epochs: int) -> None:
    put(tmp_path, images())  # 4 of each class train: 8 in each of two tasks, 16 in one
    source = get_source(f"folder:{tmp_path}?{ending}")
    assert (source.batch_size, source.epochs) == (8, epochs)
    assert get_source("digits").batch_size == 32  # whose protocol is said
