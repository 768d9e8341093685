"""Benchmarks: what the list has, what a check names, what a preparation leaves behind, and the exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
from pathlib import Path

import pytest
import torch

from tausearch.api.datasets import CheckedClass, DataState, ListedImage
from tausearch.cli.output import show_images
from tests.support.command_line import Command
from tests.support.layouts import encoded, mit67, put
from trainables.data import get_source
from trainables.data.disk.passes import stored
from trainables.data.disk.preparation import encode_png
from trainables.data.splits import SplitName


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAUSEARCH_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    mit67(tmp_path / "data" / "mit67", "indoorCVPR_09.tar")
    put(tmp_path / "own", {f"{name}/{n}.png": encoded(10, ord(name) - 97, n) for name in "abcd" for n in range(6)})
    return tmp_path


def test_the_list_says_what_is_there_and_what_is_missing(root: Path, command: Command) -> None:
    out, _ = command("list", "benchmarks")
    assert f"looked for in {root}/data/<benchmark>" in out and "expected 5360, got 268" in out
    row = next(line for line in out.splitlines() if line.startswith("│ mit67"))
    assert [cell.strip() for cell in row.split("│")[3:6]] == ["67", "268 (4)", "134 (2)"]
    assert "cub200: needs CUB_200_2011.tgz" in out and "from https://data.caltech.edu" in out
    states = {state["name"]: state for state in json.loads(command("list", "benchmarks", "--format", "json")[0])}
    assert states["letters"]["images"] == {"train": 4000, "test": 2000} and len(states["letters"]["classes"]) == 20
    assert states["digits"]["classes"]["3"] == {"train": 146, "test": 37}
    assert states["digits"]["state"] == "embedded" and states["cub200"]["state"] == "not found"
    assert not states["mit67"]["whole"] and states["mit67"]["images"] == {"train": 268, "test": 134}
    assert states["mit67"]["classes"]["room_00"] == {"train": 4, "test": 2}
    elsewhere = json.loads(command("list", "benchmarks", "--format", "json", "--data-root", root)[0])
    assert [state["state"] for state in elsewhere[3:]] == ["not found"] * 7


def test_check_names_every_unreadable_image(root: Path, command: Command) -> None:
    out, _ = command("data", "check", "mit67", "--partial")
    assert "402 images" in out and "all of them readable" in out
    train, test = (root / "data" / "mit67" / f"{part}Images.txt" for part in ("Train", "Test"))
    first, second, *others = train.read_text().splitlines()
    train.write_text("\n".join((first, second, second, *others)))
    out, _ = command("data", "check", "mit67", "--partial")  # as some official splits do
    assert f"image {second}: is listed 2 times, in train; no fault, it counts so often\n" in out
    assert "403 images" in out and "all of them readable" in out
    test.write_text(f"{first}\n{test.read_text()}")
    out, _ = command("data", "check", "mit67", "--partial", code=1)
    assert f"image {first}: is listed 2 times, in train and test\n" in out and "1 fault\n" in out
    assert "a search refuses images" not in out
    for name in ("a/1.png", "d/5.png"):
        (root / "own" / name).write_bytes(b"broken")
    out, _ = command("data", "check", "folder:own", code=1)
    assert "24 images" in out and "2 faults" in out
    assert f"image {root}/own/a/1.png: cannot be read" in out and f"image {root}/own/d/5.png: cannot be read" in out
    out, _ = command("data", "check", "folder:own", "--format", "json", code=1)
    assert len(json.loads(out)["faults"]) == 2
    out, err = command("data", "prepare", "folder:own", code=2)
    assert out == "" and "own/a/1.png: cannot be read" in err


def test_check_shows_numbers_and_sizes_of_each_class_and_writes_nothing(root: Path, command: Command) -> None:
    put(root / "own", {"b/wide.png": encode_png(torch.zeros(3, 24, 40, dtype=torch.uint8)), "c/0.png": b"broken"})
    before = sorted(root.rglob("*"))
    out, _ = command("data", "check", "folder:own", code=1)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert rows[:3] == [
        ["a", "4", "2", "", "32 x 32 to 64 x 32"],
        ["b", "5", "2", "", "40 x 24 to 64 x 32"],
        ["c", "4", "2", "1", "32 x 32 to 64 x 32"],
    ]
    told = json.loads(command("data", "check", "folder:own", "--format", "json", code=1)[0])["classes"]
    assert told["b"] == {"train": 5, "test": 2, "unreadable": 0, "smallest": [40, 24], "largest": [64, 32]}
    assert told["c"]["unreadable"] == 1 and list(told) == ["a", "b", "c", "d"]
    command("search", "folder:own", "ita-lora", "--tasks", "2", "--skip-broken", "--dry-run")
    assert sorted(root.rglob("*")) == before  # the note of what cannot be read lies elsewhere


def test_images_are_listed_as_a_run_splits_them(root: Path, command: Command) -> None:
    (root / "own" / "a" / "1.png").write_bytes(b"broken")  # none is read
    source = get_source("folder:own?tasks=2")
    parts: tuple[SplitName, ...] = ("train", "test")
    for part in parts:
        images, labels = source.load(part)
        names = [stored(images).name(row) for row in range(len(labels))]
        classes = [source.class_names[label] for label in labels.tolist()]
        assert command("data", "check", "folder:own", "--list", part)[0].splitlines() == names
        rows = json.loads(command("data", "check", "folder:own", "--list", part, "--format", "json")[0])
        assert [(row["image"], row["class"], row["split"]) for row in rows] == [
            (name, label, part) for name, label in zip(names, classes, strict=True)
        ]
    table = list(
        csv.DictReader(io.StringIO(command("data", "check", "folder:own", "--list", "all", "--format", "csv")[0]))
    )
    assert [row["split"] for row in table] == ["train"] * 16 + ["test"] * 8
    assert {row["image"] for row in table} == {str(path) for path in (root / "own").rglob("*.png")}
    left = command("data", "check", "folder:own?skip_broken=yes", "--list", "all")[0].splitlines()
    assert len(left) == 23 and f"{root}/own/a/1.png" not in left


def test_names_that_are_no_text_are_passed_on_and_shown_as_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [ListedImage(os.fsdecode(b"caf\xe9.png"), "a", "test"), ListedImage("\u00e9.png", "a", "test")]
    for on_terminal, printed in ((False, b"caf\xe9.png\n\xc3\xa9.png\n"), (True, b"caf\\xe9.png\n\xc3\xa9.png\n")):
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        monkeypatch.setattr(out, "isatty", lambda on_terminal=on_terminal: on_terminal)
        monkeypatch.setattr("sys.stdout", out)
        show_images(found, "text")
        out.flush()
        assert out.buffer.getvalue() == printed  # type: ignore[attr-defined]


def test_names_with_a_line_break_are_listed_between_nul_bytes(root: Path, command: Command) -> None:
    (root / "own" / "a" / "1.png").rename(root / "own" / "a" / "1\n.png")
    out, _ = command("data", "check", "folder:own", "--list", "all", "--null")
    assert sorted(out.split("\0")) == ["", *sorted(str(path) for path in (root / "own").rglob("*.png"))]


def test_prepared_images_are_listed_by_their_files_where_these_are_there(root: Path, command: Command) -> None:
    before, err = command("data", "check", "folder:own", "--list", "test")
    command("data", "prepare", "folder:own", "--layout", "array")
    assert command("data", "check", "folder:own", "--list", "test")[0] == before and err == ""
    for name in "abcd":
        shutil.rmtree(root / "own" / name)
    out, err = command("data", "check", "folder:own", "--list", "test")
    rows = out.splitlines()
    assert len(rows) == 8 and rows[0].endswith("test-pixels.npy row 0")
    assert err == "in no file of their own, so predict and other programs cannot open them: 8 images\n"


def test_prepared_data_is_listed_and_checked(root: Path, command: Command) -> None:
    out, _ = command("data", "prepare", "folder:own", "--layout", "array")
    folder = root / "own" / "tausearch-prepared" / "v1" / "all"
    assert f"written to {folder}\n" in out and "images (per class): train 16 (4), test 8 (2)" in out
    assert "prepared (decoded array)" in command("data", "check", "folder:own")[0]
    content = bytearray((folder / "train-pixels.npy").read_bytes())
    content[-1] ^= 1
    (folder / "train-pixels.npy").write_bytes(content)
    out, _ = command("data", "check", "folder:own", code=1)
    assert f"prepared file {folder}/train-pixels.npy: has changed since it was written" in out
    out, _ = command("data", "prepare", "folder:own", "--layout", "parquet", "--format", "json")
    made = json.loads(out)
    assert (made["prepared"], made["replaced"]) == (str(folder), True)
    out, _ = command("data", "prepare", "folder:own", "--layout", "parquet")
    assert out.endswith(f"written to {folder}, in place of the earlier one\n")


def test_the_prepared_form_is_chosen_by_size_unless_it_is_given(
    root: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, chosen in ((10**9, "decoded array"), (1000, "Parquet shards")):
        monkeypatch.setattr("trainables.data.disk.preparation.ARRAY_LIMIT", limit)
        state = json.loads(command("data", "prepare", "folder:own", "--format", "json")[0])
        assert state["layout"].startswith(f"prepared ({chosen}) from ")


def test_check_lists_what_a_name_leaves_out(root: Path, command: Command) -> None:
    assert ", all of them readable" in command("data", "check", "folder:own?skip_broken=yes")[0]
    (root / "own" / "a" / "1.png").write_bytes(b"broken")
    out, _ = command("data", "check", "folder:own?skip_broken=yes")
    assert f"left out: image {root}/own/a/1.png: cannot be read" in out and "1 left out, all others readable" in out
    out, _ = command("data", "check", "folder:own?skip_broken=yes", "--format", "json")
    assert len(json.loads(out)["left_out"]) == 1 and json.loads(out)["faults"] == []


def test_check_says_what_a_run_would_refuse_in_prepared_data(root: Path, command: Command) -> None:
    (root / "own" / "a" / "1.png").write_bytes(b"broken")
    before = json.loads(command("data", "check", "folder:own", "--format", "json", code=1)[0])
    command("data", "prepare", "folder:own?skip_broken=yes", "--layout", "array")
    after = json.loads(command("data", "check", "folder:own", "--format", "json", code=1)[0])
    assert after == {**before, "layout": after["layout"]} and after["classes"]["a"]["unreadable"] == 1
    out, _ = command("data", "check", "folder:own?skip_broken=yes")
    assert f"left out: image {root}/own/a/1.png: cannot be read" in out
    assert "23 images in" in out and "1 left out, all others readable" in out
    out, _ = command("data", "check", "folder:own", code=1)
    assert f"image {root}/own/a/1.png: cannot be read" in out and "1 fault" in out
    (root / "own" / "d" / "5.png").unlink()
    for text in ("folder:own", "folder:own?skip_broken=yes"):
        out, _ = command("data", "check", text, code=1)
        assert "was made from other files than lie in" in out and "23 images in" in out
    for name in "abcd":
        shutil.rmtree(root / "own" / name)
    assert "23 images in" in command("data", "check", "folder:own", code=1)[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data", "check", "folder:own", "--list", "val"], "--list must be train, test or all, got 'val'"),
        (["data", "check", "folder:own", "--format", "csv"], "--format csv: goes with --list"),
        (["data", "check", "folder:own", "--null"], "--null: goes with --list and without --format"),
        (["data", "check", "own", "--list", "all", "--null", "--format", "json"], "--null: goes with --list"),
        (["data", "check", "digits", "--list", "test"], "'digits': is made in memory; there is nothing on disk"),
        (["data", "check", "digit"], "unknown benchmark 'digit'; did you mean 'digits'"),
        (["data", "check", "digits"], "'digits': is made in memory; there is nothing on disk"),
        (["data", "check", "cub200"], "'cub200': not found in .*data/cub200; looks for CUB_200_2011.tgz"),
        (["data", "check", "mit67"], "train images: expected 5360, got 268; --partial accepts a smaller copy"),
        (["data", "prepare", "folder:nothing"], "folder:/.*/nothing: no such folder"),
        (["data", "check", "folder:/etc/passwd"], "folder:/etc/passwd: is no folder"),
        (["data", "prepare", "parquet:nothing"], "parquet:/.*/nothing: no such file or folder"),
        (["data", "prepare", "cub200"], "'cub200': not found in"),
        (["data", "prepare", "mit67"], "train images: expected 5360, got 268"),
        (["data", "prepare", "mit67", "--layout", "zip"], "--layout must be auto, array or parquet, got 'zip'"),
        (["data", "prepare", "caltech256", "--variant", "x"], "unknown variant 'x'; allowed: objects, clutter"),
        (["data", "check", "caltech256?variant=clutter", "--variant", "objects"], "--variant objects: .* give it once"),
        (["search", "cub200", "ita-lora"], "'cub200': not found in"),
        (
            ["search", "folder:own", "ita-lora", "--backbone", "glyph_vit"],
            "needs --tasks, --classes-per-task or --task",
        ),
        (["search", "folder:nothing", "ita-lora", "--tasks", "2"], "folder:/.*/nothing: no such folder"),
        (["search", "folder:own", "ita-lora", "--tasks", "3"], "--tasks makes 3 tasks of 4 classes"),
        (
            ["search", "folder:own", "ita-lora", "--tasks", "2", "--class-order", "x"],
            "--class-order must be 'label' or",
        ),
        (["search", "folder:own", "ita-lora", "--tasks", "2", "--classes-per-task", "2"], "not both"),
        (["search", "parquet:own", "ita-lora", "--tasks", "2"], "parquet:.*own: holds no .parquet file"),
        (["search", "no.such:THING", "ita-lora"], "module 'no.such' cannot be imported"),
        (["search", "mit67", "ita-lora", "--backbone", "glyph_vit"], "expected 5360, got 268"),
    ],
)
def test_bad_input(arguments: list[str], message: str, root: Path, command: Command) -> None:
    out, err = command(*arguments, code=2)
    assert out == "" and len(err.strip().splitlines()) == 1
    assert re.search(message, err), err
    assert not (root / "nothing").exists() and not (root / "data" / "cub200").exists()


def test_a_broken_image_stops_a_search_before_it_starts(root: Path, command: Command) -> None:
    for label in "abcd":
        (root / "own" / label / "3.png").write_bytes(encoded(10, 0, 0)[:100])
    out, err = command("search", "folder:own", "ita-lora", "--tasks", 2, "--backbone", "glyph_vit", code=2)
    assert out == "" and "own/a/3.png: cannot be read" in err
    assert not (root / "tausearch-runs").exists()


def test_spaces_know_a_benchmark_with_options(root: Path, command: Command) -> None:
    out, _ = command("list", "spaces", "ita-lora", "--benchmark", "cifar100?tasks=20", "--format", "json")
    assert json.loads(out)["paper"]["alpha"] == 0.02


def test_a_folder_for_prepared_forms_is_no_prepared_form(root: Path, command: Command) -> None:
    prepared = root / "data" / "mit67" / "tausearch-prepared" / "v1"
    prepared.mkdir(parents=True)
    states = {state["name"]: state for state in json.loads(command("list", "benchmarks", "--format", "json")[0])}
    assert states["mit67"]["layout"] is not None and states["mit67"]["prepared"] is None


def test_a_prepared_file_that_has_changed_hides_no_other_fault(root: Path, command: Command) -> None:
    (root / "own" / "a" / "1.png").write_bytes(b"broken")
    command("data", "prepare", "folder:own?skip_broken=yes", "--layout", "array")
    (pixels,) = (root / "own" / "tausearch-prepared").rglob("train-pixels.npy")
    pixels.write_bytes(pixels.read_bytes()[:-1] + b"?")
    (root / "own" / "d" / "5.png").unlink()
    out, _ = command("data", "check", "folder:own?skip_broken=yes", code=1)
    assert "has changed since it was written" in out and "was made from other files" in out and "2 faults" in out


def test_a_count_names_the_smallest_and_the_largest_class() -> None:
    classes = {"a": {"train": 1400, "test": 2}, "b": {"train": 7, "test": 2}, "c": {"train": 30, "test": 2}}
    state = DataState("own", "whole", True, classes=classes)
    assert (state.count("train"), state.count("test")) == ("1,437 (7 to 1400)", "6 (2)")
    assert state.images == {"train": 1437, "test": 6} and DataState("own", "not found", False).count("train") == ""
    assert DataState("own", "whole", True, classes={}).images == {"train": 0, "test": 0}


def test_images_are_compared_by_their_pixels() -> None:
    checked = CheckedClass()
    for size in ((50, 20), (60, 10), (30, 30), (20, 60)):
        checked.add("train", size)
    for why in ("cannot be read", "is cut off"):
        checked.add("test", why)
    assert (checked.smallest, checked.largest) == ((60, 10), (20, 60))
    assert (checked.train, checked.test, checked.unreadable) == (4, 2, 2)
