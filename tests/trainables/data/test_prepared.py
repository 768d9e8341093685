"""Images on disk, as they are and prepared: mapped, never used when broken, and the same in every form."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from tausearch.testing.reachable_objects import images_of, reachable
from tests.support.layouts import encoded, parquet, put
from tests.trainables.data.own_data import CLASSES, content, dataset, images, listed, require_usable, silent
from trainables.backbones import Backbone
from trainables.data import BenchmarkRef, build_benchmark, get_source
from trainables.data.dataset import dataset_of
from trainables.data.disk import manifest as manifest_module
from trainables.data.disk.manifest import MANIFEST, changed_files
from trainables.data.disk.passes import stored
from trainables.data.disk.preparation import choose_form
from trainables.data.disk.tree import PREPARED
from trainables.data.splits import SplitName
from trainables.errors import InputError


def test_prepared_shards_are_read_by_pandas_and_by_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainables.data.disk.preparation.ROWS_PER_GROUP", 4)
    monkeypatch.setattr("trainables.data.disk.preparation.SHARD_BYTES", 1)  # a shard for each group
    put(tmp_path, images())
    made = dataset(tmp_path)
    before = content(made.listing())
    made.prepare("parquet", silent)
    assert len(list(made.prepared.glob("train-0000?-of-00004.parquet"))) == 4
    assert content(dataset(made.prepared, "parquet").listing()) == before
    frame = pd.concat(pd.read_parquet(path) for path in sorted(made.prepared.glob("train-*.parquet")))
    assert sorted(frame["label"]) == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    shown = np.asarray(Image.open(io.BytesIO(frame["image"].iloc[0]["bytes"])).convert("RGB"))
    assert shown.transpose(2, 0, 1).tobytes() in {pixels for _, pixels in before["train"]}
    schema = pq.read_schema(next(made.prepared.glob("train-*.parquet")))
    features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert features == {"image": {"_type": "Image"}, "label": {"names": list(CLASSES), "_type": "ClassLabel"}}


def test_a_prepared_array_is_mapped_and_not_read(tmp_path: Path) -> None:
    put(tmp_path, images())
    dataset(tmp_path).prepare("array", silent)
    source = get_source(f"folder:{tmp_path}?tasks=2")
    benchmark = build_benchmark(source, "search", reads=Backbone().input)
    arrays = {id(task.train.images.images.pixels): task.train.images.images.pixels for task in benchmark.tasks}  # type: ignore[union-attr]
    assert len(arrays) == 1 and isinstance(next(iter(arrays.values())), np.memmap)
    assert len(benchmark.merged().train) == 12


def test_prepared_data_of_other_files_is_refused(tmp_path: Path) -> None:
    put(tmp_path, images())
    text = f"folder:{tmp_path}?tasks=2"
    dataset(tmp_path).prepare("array", silent)
    require_usable(text, ["train", "test"])
    put(tmp_path, {"bat/new.png": encoded(10, 7, 0)})
    with pytest.raises(InputError, match="was made from other files than lie in"):
        require_usable(text, ["train", "test"])
    dataset(tmp_path).prepare("parquet", silent)
    require_usable(text, ["train", "test"])
    for name in CLASSES:  # what it was made from may be removed
        for path in (tmp_path / name).iterdir():
            path.unlink()
    put(tmp_path, {"preview.png": b""})  # as it may be packed, and a picture beside it
    put(tmp_path, images(), "packed.zip")
    require_usable(text, ["train", "test"])
    assert len(get_source(text).load("train")[1]) == 17


@pytest.mark.parametrize("change", ["add", "delete", "move", "rename"])
def test_classes_have_another_digest_where_a_split_is_drawn_anew(change: str, tmp_path: Path) -> None:
    put(tmp_path, images(count=5))
    before = dataset(tmp_path).classes_digest
    dataset(tmp_path).prepare("array", silent)
    assert dataset(tmp_path).classes_digest == before
    shutil.rmtree(tmp_path / PREPARED)
    os.utime(tmp_path / "bat" / "0.png", (1, 1))
    assert dataset(tmp_path).classes_digest == before
    first = tmp_path / "bat" / "0.png"
    if change == "add":  # of 6 images as many train as of 5
        put(tmp_path, {"bat/new.png": encoded(10, 7, 0)})
    elif change == "delete":
        first.unlink()
    elif change == "move":
        first.rename(tmp_path / "cat" / "new.png")
    else:  # now the last class, of as many images
        (tmp_path / "bat").rename(tmp_path / "rat")
    assert dataset(tmp_path).classes_digest != before


def test_a_fault_of_the_folder_is_not_taken_for_removed_images(tmp_path: Path) -> None:
    put(tmp_path, images())
    dataset(tmp_path).prepare("array", silent)
    put(tmp_path, {"bat/new.png": encoded(10, 7, 0), "bat/notes.txt": b"x"})
    with pytest.raises(InputError, match="'notes.txt' is not an image file"):
        require_usable(f"folder:{tmp_path}?tasks=2", ["train"])
    for name in ("train", "test"):
        parquet(tmp_path / "files" / f"{name}.PARQUET", listed(), list(CLASSES))
    dataset(tmp_path / "files", "parquet").prepare("array", silent)
    (tmp_path / "files" / "test.PARQUET").rename(tmp_path / "files" / "more.PARQUET")
    with pytest.raises(InputError, match=r"'more\.PARQUET' lies beside train"):
        require_usable(f"parquet:{tmp_path / 'files'}?tasks=2", ["train"])


@pytest.mark.parametrize("form", ["array", "parquet"])
def test_images_that_were_left_out_are_said_of_the_prepared_form_too(form: Any, tmp_path: Path) -> None:
    put(tmp_path, images() | {"bat/broken.png": b"x"})
    text = f"folder:{tmp_path}?tasks=2&skip_broken=yes"
    before = require_usable(text, ["train", "test"])
    dataset_of(BenchmarkRef.parse(text)).prepare(form, silent)
    assert require_usable(text, ["train", "test"]) == before and "bat/broken.png" in before[0]
    with pytest.raises(InputError, match="broken.png"):
        require_usable(f"folder:{tmp_path}?tasks=2", ["train", "test"])
    put(tmp_path, {"bat/new.png": encoded(10, 7, 0)})
    with pytest.raises(InputError, match="was made from other files than lie in"):
        require_usable(text, ["train", "test"])


@pytest.mark.parametrize("form", ["array", "parquet"])
def test_broken_prepared_data_is_never_used(form: Any, tmp_path: Path) -> None:
    put(tmp_path, images())
    made = dataset(tmp_path)
    manifest = made.prepare(form, silent)
    assert not any(changed for _, changed in changed_files(made.prepared, manifest))
    name = next(iter(manifest.parts["train"].files))
    whole = (made.prepared / name).read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    (made.prepared / name).write_bytes(flipped)
    assert [name for name, changed in changed_files(made.prepared, manifest) if changed] == [name]
    (made.prepared / name).write_bytes(whole[:-5])
    with pytest.raises(InputError, match=rf"{name}: must have {len(whole)} bytes, got {len(whole) - 5}; prepare"):
        made.listing()
    (made.prepared / name).unlink()
    with pytest.raises(InputError, match=rf"{name}: must have {len(whole)} bytes, it is missing; prepare"):
        made.listing()
    text = (made.prepared / MANIFEST).read_text()
    (made.prepared / MANIFEST).write_text(text.replace(name, f"../{name}"))
    with pytest.raises(InputError, match=rf"names a file outside of its folder, '../{name}'"):
        made.listing()
    (made.prepared / MANIFEST).write_text("{")
    with pytest.raises(InputError, match="manifest.json: cannot be read; prepare the data again"):
        made.listing()
    made.prepare(form, silent)
    assert len(made.listing().load("train")[1]) == 16


@pytest.mark.parametrize(
    ("place", "fits"),
    [
        *(((0, 10, 10), True), ((300, 10, 10), True), ((301, 10, 10), False), ((0, 10, 11), False)),
        *(((-1, 10, 10), False), ((0, 0, 0), False), ((0, 20, 1), True), ((0, 1, 21), False)),
    ],
)
def test_an_image_lies_within_the_pixels_and_has_as_many_as_a_file_may_have(
    place: tuple[int, int, int], fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_module, "MOST_PIXELS", 100)
    monkeypatch.setattr(manifest_module, "MOST_RATIO", 20)
    assert manifest_module._fits(np.zeros(600, dtype=np.uint8), np.array([place])) == fits
    assert not manifest_module._fits(np.zeros(600), np.array([place]))


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"layout": 1}, {"form": "zip"}, {"classes": ["bat", 1]}, {"parts": {"train": None}}],
    ids=str,
)
def test_a_manifest_of_another_version_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    put(tmp_path, images())
    made = dataset(tmp_path)
    made.prepare("array", silent)
    path = made.prepared / MANIFEST
    content = json.loads(path.read_text())
    if "parts" in change:
        change = {"parts": {"train": content["parts"]["train"]}}
    path.write_text(json.dumps({**content, **change}))
    with pytest.raises(InputError, match="manifest.json: is not of this version; prepare the data again"):
        made.manifest()


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    put(tmp_path, {"birds/": b"", "birdy": b""})
    with pytest.raises(InputError, match=r"bird: no such folder; did you mean 'birds'\?; if"):
        dataset(tmp_path / "bird").prepare(None, silent)


def test_a_killed_preparation_leaves_nothing_that_is_used(tmp_path: Path) -> None:
    put(tmp_path, images())
    code = (
        "import os, signal, sys\n"
        "from trainables.data import BenchmarkRef\n"
        "from trainables.data.dataset import dataset_of\n"
        "done = 0\n"
        "def tick(count):\n"
        "    global done\n"
        "    done += count\n"
        "    if done > 35: os.kill(os.getpid(), signal.SIGKILL)\n"  # in the middle of writing
        "dataset_of(BenchmarkRef.parse(sys.argv[1])).prepare('array', lambda name, total: tick)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, f"folder:{tmp_path}"], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    made = dataset(tmp_path)
    assert list(made.prepared.parent.glob("*.unfinished/train-pixels.npy"))
    assert made.manifest() is None and made.listing().layout.startswith("class folders")
    made.prepare("array", silent)
    assert sorted(path.suffix for path in made.prepared.parent.iterdir()) == ["", ".lock"]


def test_a_form_of_images_that_had_other_labels_is_refused(tmp_path: Path) -> None:
    put(tmp_path, images())
    made = dataset(tmp_path)
    listing, manifest = made.find(), made.prepare("array", silent)
    corrected = replace(made, find=lambda: replace(listing, load=lambda part: (listing.load(part)[0], swapped(part))))

    def swapped(part: SplitName) -> torch.Tensor:
        return listing.load(part)[1].flip(0)

    assert made.faults_of_source(manifest) == []
    assert "was made from other files than lie in" in corrected.faults_of_source(manifest)[0]
    parts = {part: replace(of, source=stored(listing.load(part)[0]).digest) for part, of in manifest.parts.items()}
    (earlier,) = made.faults_of_source(replace(manifest, parts=parts))  # without the labels
    assert "or by version 0.1.0; run `tausearch data prepare` again" in earlier


@pytest.mark.parametrize("name", ["x.parquet.old", "x.parquet.unfinished", "x.parquet.lock"])
def test_forms_beside_each_other_stay(name: str, tmp_path: Path) -> None:
    both = []
    for file in (name, "x.parquet"):
        parquet(tmp_path / file, listed(), list(CLASSES))
        both.append(dataset(tmp_path / file, "parquet"))
        both[-1].prepare("array", silent)
    assert [each.manifest() is not None for each in both] == [True, True]


def test_the_form_of_a_parquet_file_stands_for_itself_where_the_file_is_removed(tmp_path: Path) -> None:
    for file in ("x.parquet", "y.parquet"):
        parquet(tmp_path / file, listed(), list(CLASSES))
    text = f"parquet:{tmp_path}/x.parquet?tasks=2"
    dataset(tmp_path / "x.parquet", "parquet").prepare("array", silent)
    (tmp_path / "x.parquet").unlink()
    assert require_usable(text, ["train", "test"]) == [] and len(get_source(text).load("train")[1]) == 16
    with pytest.raises(InputError, match=r"z\.parquet: no such file or folder"):
        get_source(f"parquet:{tmp_path}/z.parquet?tasks=2")


@pytest.mark.parametrize("prepared", [True, False])
def test_an_image_that_can_be_read_again_is_taken(prepared: bool, tmp_path: Path) -> None:
    put(tmp_path, images() | {"cat/0.png": bytes(len(images()["cat/0.png"]))})
    text, path = f"folder:{tmp_path}?skip_broken=yes", tmp_path / "cat" / "0.png"
    left_out = require_usable(text, ["train", "test"])
    time = path.stat().st_mtime_ns
    path.write_bytes(images()["cat/0.png"])
    os.utime(path, ns=(time, time))  # as a backup is restored
    assert require_usable(text, ["train", "test"]) == left_out != []  # a run goes on as it began
    if prepared:
        assert dataset_of(BenchmarkRef.parse(text)).prepare("array", silent).left_out(["train", "test"]) == []
    assert require_usable(f"folder:{tmp_path}", ["train", "test"]) == []


def test_the_decoded_form_is_chosen_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, images())
    assert dataset(tmp_path).prepare(None, silent).form == "array"
    monkeypatch.setattr("trainables.data.disk.preparation.ARRAY_LIMIT", 1000)
    assert dataset(tmp_path).prepare(None, silent).form == "parquet"
    monkeypatch.setattr("trainables.data.disk.preparation.ARRAY_LIMIT", 10**9)
    for free, form in ((10**9, "array"), (80_000, "parquet")):  # bytes: files fit and pixels do not
        monkeypatch.setattr("shutil.disk_usage", lambda path, free=free: SimpleNamespace(free=free))
        assert dataset(tmp_path).prepare(None, silent).form == form
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(InputError, match="array needs .* of disk, .* can be used"):
        dataset(tmp_path).prepare("array", silent)
    with pytest.raises(InputError, match="parquet needs .* of disk"):
        choose_form("parquet", [torch.zeros(2, 3, 20, 20, dtype=torch.uint8)], tmp_path, lambda count: None)
    assert dataset(tmp_path).prepared.exists()  # the earlier one


@pytest.mark.parametrize("form", [None, "array", "parquet"])
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_of_a_batch_from_disk_lead_to_its_images_again(
    form: Any, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, images())
    if form is not None:
        dataset(tmp_path).prepare(form, silent)
    task = build_benchmark(get_source(f"folder:{tmp_path}?tasks=2"), "search", reads=Backbone().input).tasks[1]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    draws, again = (torch.Generator().manual_seed(5) for _ in range(2))
    torch.randperm(len(task.train), generator=again)  # a pass draws its order before anything else
    sizes = set()
    for x, y, chosen in task.train.batches(4, draws, shuffle=True):
        pixels = task.train.pixels(chosen)
        sizes |= {image.shape for image in pixels}
        assert all(image.dtype == torch.uint8 for image in pixels) and len(pixels) == len(chosen)
        assert torch.equal(task.train.prepare(pixels, again), x) and torch.equal(task.train.labels[chosen], y)
        for row, image in zip(chosen, pixels, strict=True):
            alone = task.train.pixels(row[None])  # one image has one size
            assert isinstance(alone, torch.Tensor) and torch.equal(alone[0], image)
    assert len(sizes) == 2  # so that some batches are lists of images


@pytest.mark.parametrize("form", [None, "array", "parquet"])
@pytest.mark.parametrize("purpose", ["search", "final"])
def test_nothing_reachable_leads_to_images_that_evaluate_or_test(form: Any, purpose: Any, tmp_path: Path) -> None:
    put(tmp_path, images())
    if form is not None:
        dataset(tmp_path).prepare(form, silent)
    source = get_source(f"folder:{tmp_path}?tasks=2")
    benchmark = build_benchmark(source, purpose, reads=Backbone().input)
    items = list(reachable(benchmark.tasks))
    trained, evaluated = images_of(items), set(images_of(reachable(benchmark.evaluation)))
    assert len(trained) == sum(len(task.train) for task in benchmark.tasks) and not set(trained) & evaluated
    assert len(evaluated) == sum(map(len, benchmark.evaluation))
    everything = content(dataset(tmp_path).listing())
    if purpose == "search":
        assert sorted([*trained, *evaluated]) == sorted(image for _, image in everything["train"])
        assert not [each for each in reachable(benchmark) if isinstance(each, str) and Path(each).name[:5] == "test-"]
