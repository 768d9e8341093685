"""A user's own images: folders, Parquet files, what they may be called, and what is said of each fault."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.support.layouts import encoded, parquet, put, rows
from tests.support.reachable import reachable
from tests.support.stored_images import images_of
from trainables.backbones import Backbone
from trainables.data import BenchmarkRef, build_benchmark, get_source
from trainables.data.dataset import Dataset, dataset_of
from trainables.data.disk.passes import stored
from trainables.data.disk.prepared import MANIFEST, changed_files
from trainables.data.parts import PARTS
from trainables.data.usable import require_usable
from trainables.errors import InputError
from trainables.metrics import repeatable
from trainables.sequence import IncrementalSequence

CLASSES = ("bat", "cat", "dog", "elk")


def silent(name: str, total: int) -> Any:
    return lambda count: None


def images(count: int = 6, prefix: str = "") -> dict[str, bytes]:
    return {
        f"{prefix}{name}/{number}.png": encoded(10, label, number)
        for label, name in enumerate(CLASSES)
        for number in range(count)
    }


def dataset(root: Path, kind: str = "folder") -> Dataset:
    return dataset_of(BenchmarkRef.parse(f"{kind}:{root}"))


def content(listing: Any) -> dict[str, list[tuple[int, bytes]]]:
    found = {}
    for part in PARTS:
        stored_images, labels = listing.parts[part]()
        whole = stored(stored_images)
        pixels = (whole.image(row).contiguous().numpy().tobytes() for row in range(len(whole)))
        found[part] = sorted(zip(labels.tolist(), pixels, strict=True))
    return found


def test_folder_without_a_split(tmp_path: Path) -> None:
    put(tmp_path, images())
    put(tmp_path, {".hidden/x.txt": b"", "Thumbs.db": b"", "bat/.DS_Store": b""})
    source = get_source(f"folder:{tmp_path}?tasks=2")
    assert source.class_names == CLASSES and source.num_tasks == 2
    train, test = (source.load(part)[1] for part in PARTS)
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


@pytest.mark.parametrize(
    ("files", "folders", "message"),
    [
        ({}, ("fox",), "class 'fox' has no image, needs at least 4"),
        ({"fox/1.png": b"x"}, (), "class 'fox' has 1 image, needs at least 4: 2 to train, 1 to validate, 1 to test"),
        ({"cat/notes.txt": b"x"}, (), "cat: 'notes.txt' is not an image file"),
        ({"cat/noending": b"x"}, (), "cat: 'noending' is not an image file"),
        ({"loose.png": b"x"}, (), "'loose.png' lies beside the class folders"),
        ({"more.zip": b"PK"}, (), "more.zip: cannot be read as an archive"),
        ({"more.tar.gz": b"x"}, (), "'more.tar.gz' lies beside the class folders"),
        ({"train/a/1.png": b"x"}, (), "'bat' lies beside train and test"),
    ],
)
def test_what_does_not_belong_into_a_folder(
    files: dict[str, bytes], folders: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    put(tmp_path, images() | files)
    for name in folders:
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=message) as caught:
        get_source(f"folder:{tmp_path}?tasks=2")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (images(4, "train/"), "has no folder 'test'"),
        (images(4, "train/") | images(1, "test/") | {"val/a/1.png": b"x"}, "'val' lies beside .* belong into train"),
        (images(4, "train/") | images(1, "test/") | {"train/fox/1.png": b"x"}, "class 'fox' has 1 image, needs at"),
        (
            images(4, "train/") | images(1, "test/") | {"test/fox/1.png": b"x"},
            "class 'fox' is in test but not in train",
        ),
        ({"a/1.png": b"x"}, "needs at least 2 class folders, has 1"),
    ],
)
def test_faults_of_splits(files: dict[str, bytes], message: str, tmp_path: Path) -> None:
    put(tmp_path, files)
    with pytest.raises(InputError, match=message):
        get_source(f"folder:{tmp_path}?tasks=2")


def test_a_broken_image_is_named_before_anything_runs(tmp_path: Path) -> None:
    put(tmp_path, images(4, "train/") | images(2, "test/") | {"test/cat/1.png": b"no image"})
    text = f"folder:{tmp_path}?tasks=2"
    require_usable(text, None, ["train"], silent)  # a search does not read the test part
    with pytest.raises(InputError, match=r"image .*test/cat/1.png: cannot be read \(not an image\)"):
        require_usable(text, None, ["train", "test"], silent)
    (tmp_path / "train" / "dog" / "2.png").write_bytes(encoded(10, 2, 2)[:200])
    with pytest.raises(InputError, match=r"image .*train/dog/2.png: cannot be read"):
        require_usable(text, None, ["train"], silent)
    with pytest.raises(InputError, match="names every image that cannot be read"):
        dataset(tmp_path).prepare("array", silent)
    assert dataset(tmp_path).manifest() is None


@pytest.mark.parametrize("kind", ["folder", "parquet"])
def test_broken_images_are_left_out_where_that_is_asked_for(kind: str, tmp_path: Path) -> None:
    listed = [row for row in rows(10, range(6), lambda label, n: f"{label}/{n}.png") if row["label"] < 4]
    listed[7]["bytes"] = listed[16]["bytes"] = b"no image"
    if kind == "folder":
        put(tmp_path / "data", {f"{CLASSES[row['label']]}/{row['path'][-5:]}": row["bytes"] for row in listed})
    else:
        parquet(tmp_path / "data" / "all.parquet", listed, list(CLASSES))
    text = f"{kind}:{tmp_path}/data?tasks=2"
    before = {part: get_source(text).load(part) for part in PARTS}
    with pytest.raises(InputError, match="; --skip-broken leaves out what cannot be read"):
        require_usable(text, None, PARTS, silent)
    left_out = require_usable(f"{text}&skip_broken=yes", None, PARTS, silent)
    assert len(left_out) == 2 and all("cannot be read (not an image)" in line for line in left_out)
    kept = 0
    for part in PARTS:
        images, labels = get_source(f"{text}&skip_broken=yes").load(part)
        wanted = [row for row in range(len(before[part][1])) if _reads(stored(before[part][0]), row)]
        assert labels.tolist() == before[part][1][wanted].tolist()
        for row, there in enumerate(wanted):
            assert torch.equal(stored(images).image(row), stored(before[part][0]).image(there))
        kept += len(wanted)
    assert kept == 22
    assert require_usable(f"{text}&skip_broken=yes", None, PARTS, never) == left_out  # the note says it, too


def _reads(images: Any, row: int) -> bool:
    try:
        return images.image(row) is not None
    except InputError:
        return False


def never(name: str, total: int) -> Any:
    pytest.fail(f"{name}: a second look")


def test_what_was_mended_is_found_sound_and_a_class_that_is_all_broken_is_refused(tmp_path: Path) -> None:
    good = images()
    put(tmp_path, good | {f"cat/{n}.png": b"no image" for n in range(6)})
    text = f"folder:{tmp_path}?tasks=2"
    assert len(require_usable(f"{text}&skip_broken=yes", None, PARTS, silent)) == 6
    with pytest.raises(InputError, match="class 'cat' has no image that can be read in the train part"):
        get_source(f"{text}&skip_broken=yes").load("train")
    put(tmp_path, good)
    assert require_usable(text, None, PARTS, silent) == []
    with pytest.raises(InputError, match="skip_broken is for images on disk"):
        get_source("digits?skip_broken=yes")


def test_every_image_is_looked_at_once_and_not_again(tmp_path: Path) -> None:
    put(tmp_path, images())
    steps: list[str] = []

    def started(name: str, total: int) -> Any:
        steps.append(name)
        return lambda count: None

    for _ in range(2):
        require_usable(f"folder:{tmp_path}?tasks=2", None, ["train"], started)
    assert steps == ["looking at the train images once"]


def test_parquet_is_the_same_as_the_folder(tmp_path: Path) -> None:
    put(tmp_path / "folder", images())
    names = list(CLASSES)
    listed = [row for row in rows(10, range(6), lambda label, n: f"{label}/{n}.png") if row["label"] < 4]
    parquet(tmp_path / "one" / "all.parquet", listed[::-1], names)
    assert content(dataset(tmp_path / "one", "parquet").listing()) == content(dataset(tmp_path / "folder").listing())
    assert get_source(f"parquet:{tmp_path}/one?tasks=2").class_names == CLASSES
    assert get_source(f"parquet:{tmp_path}/one/all.parquet?tasks=2").class_names == CLASSES


def test_parquet_with_splits_and_with_names_as_labels(tmp_path: Path) -> None:
    for part, numbers in (("train", range(4)), ("test", range(4, 6))):
        listed = [row for row in rows(10, numbers, lambda label, n: f"{label}/{n}.png") if row["label"] < 4]
        table = pa.table({"img": [r["bytes"] for r in listed], "class": [CLASSES[r["label"]] for r in listed]})
        (tmp_path / part).mkdir()
        pq.write_table(table, tmp_path / part / "0.parquet", row_group_size=3)
    source = get_source(f"parquet:{tmp_path}?tasks=2")
    assert source.class_names == CLASSES and len(source.load("train")[1]) == 16 and len(source.load("test")[1]) == 8
    train, labels = source.load("train")
    assert torch.equal(stored(train).image(9), stored(train).image(9)) and labels.tolist() == sorted(labels.tolist())


def test_the_column_of_labels_can_be_chosen(tmp_path: Path) -> None:
    listed = [row for row in rows(10, range(6), lambda label, n: f"{label}/{n}.png") if row["label"] < 4]
    columns = {"image": [r["bytes"] for r in listed], "label": [r["label"] for r in listed]}
    coarse = ["small" if row["label"] < 2 else "large" for row in listed]
    pq.write_table(pa.table({**columns, "size": coarse}), tmp_path / "a.parquet")
    text = f"parquet:{tmp_path}?tasks=1&label_column=size"
    source = get_source(text)
    assert source.class_names == ("large", "small") and source.name == text
    assert sorted(source.load("train")[1].tolist() + source.load("test")[1].tolist()) == [0] * 12 + [1] * 12
    assert get_source(f"parquet:{tmp_path}?tasks=2").class_names == tuple("0123")
    with pytest.raises(
        InputError, match="--label-column colour: .*a.parquet has no such column; it has image, label, size"
    ):
        get_source(f"parquet:{tmp_path}?tasks=1&label_column=colour")
    for other in (
        f"folder:{tmp_path}?tasks=1&label_column=size",
        "digits?label_column=size",
        "mit67?label_column=size",
    ):
        with pytest.raises(InputError, match="label_column is for Parquet files"):
            get_source(other)


def test_what_is_not_there_is_said_before_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: no such folder"):
        get_source(f"folder:{tmp_path}/nowhere")


def test_faults_of_parquet(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        get_source(f"parquet:{tmp_path}/none?tasks=2")
    with pytest.raises(InputError, match="holds no .parquet file"):
        get_source(f"parquet:{tmp_path}?tasks=2")
    pq.write_table(pa.table({"text": ["a"], "label": [0]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="has no column of image bytes; has text, label"):
        get_source(f"parquet:{tmp_path}?tasks=2")
    pq.write_table(pa.table({"image": [b"a"], "name": ["x"]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="has no column of labels"):
        get_source(f"parquet:{tmp_path}?tasks=2")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match=r"a.parquet: cannot be read as Parquet"):
        get_source(f"parquet:{tmp_path}?tasks=2")


def test_prepared_shards_are_read_by_pandas_and_by_parquet(tmp_path: Path) -> None:
    import io

    import pandas as pd
    from PIL import Image

    put(tmp_path, images())
    made = dataset(tmp_path)
    before = content(made.listing())
    made.prepare("parquet", silent)
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


@pytest.mark.parametrize("form", ["array", "parquet"])
def test_nothing_reachable_in_a_search_on_prepared_data_leads_to_a_test_image(form: Any, tmp_path: Path) -> None:
    put(tmp_path, images())
    dataset(tmp_path).prepare(form, silent)
    everything = content(dataset(tmp_path).listing())
    source = get_source(f"folder:{tmp_path}?tasks=2")
    items = list(reachable(build_benchmark(source, "search", reads=Backbone().input), limit=2_000_000))
    assert sorted(images_of(items)) == sorted(image for _, image in everything["train"])
    assert not [item for item in items if isinstance(item, str) and Path(item).name.startswith("test-")]


def test_prepared_data_of_other_files_is_refused(tmp_path: Path) -> None:
    put(tmp_path, images())
    text = f"folder:{tmp_path}?tasks=2"
    dataset(tmp_path).prepare("array", silent)
    require_usable(text, None, ["train", "test"], silent)
    put(tmp_path, {"bat/new.png": encoded(10, 7, 0)})
    with pytest.raises(InputError, match="was made from other files than lie in"):
        require_usable(text, None, ["train", "test"], silent)
    dataset(tmp_path).prepare("parquet", silent)
    require_usable(text, None, ["train", "test"], silent)
    for name in CLASSES:  # what it was made from may be removed
        for path in (tmp_path / name).iterdir():
            path.unlink()
    require_usable(text, None, ["train", "test"], silent)
    assert len(get_source(text).load("train")[1]) == 17


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
    (made.prepared / MANIFEST).write_text("{")
    with pytest.raises(InputError, match="manifest.json: cannot be read; prepare the data again"):
        made.listing()
    made.prepare(form, silent)
    assert len(made.listing().parts["train"]()[1]) == 16


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
    assert (made.prepared.parent / "all.unfinished" / "train-pixels.npy").exists()
    assert made.manifest() is None and made.listing().layout.startswith("class folders")
    made.prepare("array", silent)
    assert sorted(path.name for path in made.prepared.parent.iterdir()) == ["all", "all.lock"]


def test_the_decoded_form_is_chosen_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, images())
    assert dataset(tmp_path).prepare(None, silent).form == "array"
    monkeypatch.setattr("trainables.data.disk.preparation.ARRAY_LIMIT", 1000)
    assert dataset(tmp_path).prepare(None, silent).form == "parquet"
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(InputError, match="array needs .* of disk, .* can be used"):
        dataset(tmp_path).prepare("array", silent)
    assert dataset(tmp_path).prepared.exists()  # the earlier one


@pytest.mark.parametrize(
    ("text", "canonical", "slug"),
    [
        ("digits", "digits", "digits"),
        ("cifar100?epochs=3&tasks=20", "cifar100?tasks=20&epochs=3", "cifar100-tasks-20-epochs-3"),
        ("folder:/data/My Birds?tasks=5&class_order=0", "folder:/data/My Birds?tasks=5&class_order=0", None),
        ("folder:/a/../b/", "folder:/b", "folder-b"),
        ("own.module:NAME", "own.module:NAME", "own.module-NAME"),
    ],
)
def test_names_of_benchmarks(text: str, canonical: str, slug: str | None) -> None:
    ref = BenchmarkRef.parse(text)
    assert str(ref) == canonical and BenchmarkRef.parse(canonical) == ref
    assert ref.slug == (slug or "folder-My-Birds-tasks-5-class_order-0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digits?taks=2", "unknown option 'taks=2'; allowed: tasks, classes_per_task, class_order"),
        ("digits?tasks=two", "tasks must be a whole number, got 'two'"),
        ("digits?tasks=0", "tasks must be from 1 to 100000, got 0"),
        ("digits?tasks=2&tasks=2", "option 'tasks' is given twice"),
        ("digits?tasks=100001", "tasks must be from 1 to 100000"),
        (f"digits?tasks={'9' * 5000}", "tasks must be a whole number"),
        ("digits?epochs=100001", "epochs must be from 1 to 100000"),
        ("digits?class_order=4294967296", "class_order must be from 0 to 4294967295"),
        ("digits?tasks=2&classes_per_task=2", "give tasks or classes_per_task, not both"),
        ("digits?tasks=6", "--tasks makes 6 tasks of 10 classes; a task needs at least 2 classes, so at most 5"),
        ("digits?partial=yes", "variant and partial are for published datasets"),
        ("folder:", "needs a path after 'folder:'"),
        ("folder:/nowhere?tasks=2", "folder:/nowhere: no such folder"),
        ("folder:/nowhere", "folder:/nowhere: no such folder"),
        ("folder:/nowhere?tasks=2&partial=yes", "variant and partial are for published datasets"),
        ("nowhere.module:NAME", "module 'nowhere.module' cannot be imported"),
        ("trainables.data:Task", "'Task' must be a BenchmarkSource, got type"),
        ("trainables.data:nothing", "must be a BenchmarkSource, got nothing of that name"),
    ],
)
def test_wrong_names_of_benchmarks(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        get_source(text)


def test_a_tasks_option_works_for_every_benchmark() -> None:
    benchmark = build_benchmark(get_source("digits?tasks=2&class_order=1&epochs=2"), "search")
    assert [len(task.classes) for task in benchmark.tasks] == [5, 5] and benchmark.spec.epochs == 2
    assert benchmark.spec.class_names != tuple("0123456789") and set(benchmark.spec.class_names) == set("0123456789")


def test_the_example_is_a_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "examples"))
    benchmark = build_benchmark(get_source("own_benchmark:STRIPES"), "search")
    assert len(benchmark.tasks) == 4 and len(benchmark.merged().train) == 8 * 36


def test_images_of_several_sizes_are_read_alike_by_one_and_by_many_threads(
    tmp_path: Path, generator: torch.Generator
) -> None:
    put(tmp_path, images())
    task = build_benchmark(get_source(f"folder:{tmp_path}?tasks=2"), "search", reads=Backbone().input).tasks[0]
    before, batches = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            draws = torch.Generator().manual_seed(5)
            batches.append([batch.x for batch in task.train.batches(2, draws, shuffle=True)])
    finally:
        torch.set_num_threads(before)
    assert len(batches[0]) == 3 and all(torch.equal(*pair) for pair in zip(*batches, strict=True))


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
def test_nothing_reachable_from_tasks_leads_to_an_evaluation_image(form: Any, purpose: Any, tmp_path: Path) -> None:
    put(tmp_path, images())
    if form is not None:
        dataset(tmp_path).prepare(form, silent)
    source = get_source(f"folder:{tmp_path}?tasks=2")
    benchmark = build_benchmark(source, purpose, reads=Backbone().input)
    evaluation = set(images_of(reachable(benchmark.evaluation)))
    assert len(evaluation) == sum(map(len, benchmark.evaluation))
    found = images_of(reachable(benchmark.tasks))
    assert len(found) == sum(len(task.train) for task in benchmark.tasks) and not set(found) & evaluation


def test_raw_and_prepared_data_give_the_same_numbers(tmp_path: Path) -> None:
    put(tmp_path, images())
    results = []
    for form in (None, "array", "parquet"):
        if form is not None:
            dataset(tmp_path).prepare(form, silent)  # type: ignore[arg-type]
        source = get_source(f"folder:{tmp_path}?tasks=2&epochs=2")
        benchmark = build_benchmark(source, "final", reads=Backbone().input)
        sequence = IncrementalSequence(benchmark, "finetune", {"lr": 0.001}, backbone=Backbone())
        rows = [sequence.run_next_task() for _ in range(2)]
        results.append([repeatable(row) for row in rows])
    assert results[0] == results[1] == results[2]
