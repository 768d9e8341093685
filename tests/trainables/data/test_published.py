"""The paper's seven benchmarks, read by the real loaders from small copies of every layout they come in."""

from __future__ import annotations

import os
import pickle
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tausearch.testing.reachable_objects import images_of, reachable
from tests.support.layouts import EACH, LAYOUTS, PACKED, TEST, TRAIN, encoded, imagenet_r, put
from tests.trainables.data.own_data import silent
from trainables.backbones import Backbone, InputSpec
from trainables.data import PUBLISHED, BenchmarkRef, build_benchmark, get_source
from trainables.data.dataset import dataset_of
from trainables.data.disk.decoding import decode
from trainables.data.disk.passes import sizes_or_faults, stored
from trainables.data.disk.tree import DiskFile, Tree, open_tree
from trainables.data.published.caltech256 import _clutter, find as find_caltech
from trainables.data.published.cub200 import find as find_cub
from trainables.data.published.publication import Expected, _names_by_label, checked_split
from trainables.data.splits import SPLIT_NAMES
from trainables.errors import InputError

CLASSES = {"imagenet_r": 200, "cifar100": 100, "cub200": 200, "caltech256": 256, "mit67": 67, "resisc45": 45}
CLASSES["cropdisease"] = 35
Images = dict[str, list[tuple[int, bytes]]]  # label and pixels of all images of each part


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Layout to data root; each is made once, when it is first asked for. Tests change only a copy (`linked`)."""

    class Copies(dict):
        def __missing__(self, layout: str) -> Path:
            name, build = {**LAYOUTS, **PACKED}[layout]
            root = tmp_path_factory.mktemp("data")
            build(root / name)
            self[layout] = root
            return root

    return Copies()


@pytest.fixture(scope="module")
def contents(copies: dict[str, Path]) -> dict[str, Images]:
    """Layout to all its images; each is read once."""

    class Contents(dict):
        def __missing__(self, layout: str) -> Images:
            self[layout] = all_images(small(layout), copies[layout])
            return self[layout]

    return Contents()


def linked(root: Path, target: Path) -> Path:
    """Copy a data root by links. The copy's files may be removed, but not written to."""
    return shutil.copytree(root, target, copy_function=os.link, dirs_exist_ok=True)


def small(layout: str) -> str:
    return f"{ {**LAYOUTS, **PACKED}[layout][0] }?partial=yes"


def all_images(text: str, root: Path) -> Images:
    source = get_source(text, root)
    found = {}
    for part in SPLIT_NAMES:
        images, labels = source.load(part)
        whole = stored(images)
        found[part] = [
            (int(label), whole.image(row).contiguous().numpy().tobytes()) for row, label in enumerate(labels)
        ]
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_is_read_whole(layout: str, copies: dict[str, Path], contents: dict[str, Images]) -> None:
    name = LAYOUTS[layout][0]
    source = get_source(small(layout), copies[layout])
    assert len(source.class_names) == CLASSES[name] == len(set(source.class_names))
    assert (source.num_tasks, source.epochs) == (PUBLISHED[name].tasks, PUBLISHED[name].epochs)
    found = contents[layout]
    for part, each in (("train", TRAIN), ("test", TEST)):
        counts = Counter(label for label, _ in found[part])
        assert counts == {label: each for label in range(CLASSES[name])}, part
    images = [image for part in SPLIT_NAMES for _, image in found[part]]
    assert len(set(images)) == len(images) == CLASSES[name] * EACH  # every image once, none in both parts


def test_labels_and_pixels_are_those_of_the_files(copies: dict[str, Path]) -> None:
    images, labels = get_source(small("imagenet_r tar"), copies["imagenet_r tar"]).load("train")
    whole = stored(images)
    for row in (0, 7, 431):
        number = row // 200  # the split file lists the first image of every class, then the second, ...
        assert int(labels[row]) == row % 200
        assert torch.equal(whole.image(row), decode(encoded(200, row % 200, number, "JPEG"), "drawn"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("imagenet_r folder", "imagenet_r tar"),
        ("caltech256 folder", "caltech256 tar"),
        ("caltech256 folder", "caltech256 parquet"),
        ("mit67 folder", "mit67 tar"),
        ("resisc45 folder", "resisc45 zip"),
        ("cropdisease parquet", "cropdisease split files"),
    ],
)
def test_two_layouts_of_one_dataset_are_the_same_benchmark(one: str, other: str, contents: dict[str, Images]) -> None:
    assert contents[one] == contents[other]


@pytest.mark.parametrize(
    ("one", "other", "taken"),
    [
        ("cifar100 folder", "cifar100 parquet", "Python version"),
        ("cub200 folder", "cub200 npz", "CUB_200_2011"),
        ("caltech256 folder", "caltech256 parquet", "class folders"),
        ("resisc45 split files", "resisc45 parquet", "Parquet"),
        ("cropdisease folder", "cropdisease parquet", "the authors' split files"),
    ],
)
def test_one_of_two_layouts_is_taken(one: str, other: str, taken: str, copies: dict[str, Path], tmp_path: Path) -> None:
    for layout in (one, other):
        linked(copies[layout], tmp_path)
    dataset = dataset_of(BenchmarkRef.parse(small(one)), tmp_path)
    assert dataset.find().layout.startswith(taken)


def test_grey_images_of_the_same_names_are_not_taken_for_coloured_ones(
    copies: dict[str, Path], contents: dict[str, Images], tmp_path: Path
) -> None:
    """PlantVillage has folders `color`, `grayscale` and `segmented` with the same names of files."""
    root = linked(copies["cropdisease split files"], tmp_path) / "cropdisease"
    for folder in ("grayscale", "raw/segmented"):
        put(root / folder, {path.name: b"grey" for path in (root / "images").iterdir()})
    (root / "images").rename(root / "raw" / "color")
    assert all_images(small("cropdisease split files"), tmp_path) == contents["cropdisease split files"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_reachable_in_a_search_leads_to_a_test_image(
    layout: str, copies: dict[str, Path], contents: dict[str, Images]
) -> None:
    source, everything = get_source(small(layout), copies[layout]), contents[layout]
    test_images = {image for _, image in everything["test"]}
    benchmark = build_benchmark(source, "search", reads=Backbone().input)
    items = list(reachable(benchmark))
    assert not any(item is source.load for item in items)
    read = images_of(items)
    assert len(read) == len(everything["train"])  # found all of them, once
    assert set(read) == {image for _, image in everything["train"]} and not set(read) & test_images
    names = {item for item in items if isinstance(item, str)}
    assert not {name for name in names if name.endswith(("_test.yaml", "test.json", "TestImages.txt", "test_data.npz"))}


@pytest.mark.parametrize(
    "layout", ["cifar100 folder", "cub200 npz", "mit67 folder", "mit67 tar", "resisc45 zip", "cropdisease parquet"]
)
def test_nothing_reachable_from_tasks_leads_to_a_validation_image(layout: str, copies: dict[str, Path]) -> None:
    """One layout for each way to hold images: arrays of one and of many sizes, files, archives, Parquet."""
    source = get_source(small(layout), copies[layout])
    benchmark = build_benchmark(source, "search", reads=Backbone().input)
    evaluation = set(images_of(reachable(benchmark.evaluation)))
    assert len(evaluation) == len(source.class_names)  # one of each class's four images
    for tasks in (benchmark.tasks, benchmark.merged()):
        benchmark.tasks[0].train.pixels(torch.arange(2))  # what is kept once it has been read counts, too
        found = set(images_of(reachable(tasks)))
        assert len(found) == sum(len(task.train) for task in benchmark.tasks) and not found & evaluation


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_batch_is_what_the_backbone_reads(layout: str, copies: dict[str, Path], generator: torch.Generator) -> None:
    source = get_source(small(layout), copies[layout])
    for reads in (Backbone().input, InputSpec(3, 64, (0.5,) * 3, (0.5,) * 3)):
        benchmark = build_benchmark(source, "search", reads=reads)
        task = benchmark.tasks[0]
        x, y, _ = next(task.train.batches(8, generator, shuffle=True))
        assert x.shape == (8, reads.channels, reads.size, reads.size) and x.isfinite().all()
        assert set(y.tolist()) <= set(task.classes)
        x = next(benchmark.evaluation[0].batches(8, None, shuffle=False)).x
        assert x.shape[1:] == (reads.channels, reads.size, reads.size)


@pytest.mark.parametrize(
    ("layout", "form"),
    [
        ("imagenet_r tar", "parquet"),
        ("cifar100 folder", "array"),
        ("cifar100 parquet", "parquet"),
        ("cub200 npz", "parquet"),  # has pixels alone
        ("caltech256 folder", "array"),
        ("mit67 folder", "parquet"),  # has a GIF
        ("mit67 tar", "array"),
        ("resisc45 zip", "array"),
        ("resisc45 parquet", "array"),
        ("cropdisease parquet", "parquet"),
        ("cropdisease folder", "array"),
    ],
)
def test_prepared_data_is_the_same_benchmark(
    layout: str, form: Any, copies: dict[str, Path], contents: dict[str, Images], tmp_path: Path
) -> None:
    root = linked(copies[layout], tmp_path / "data")
    dataset = dataset_of(BenchmarkRef.parse(small(layout)), root)
    manifest = dataset.prepare(form, silent)
    assert manifest.form == form and dataset.listing().layout.startswith("prepared")
    assert all_images(small(layout), root) == contents[layout]
    for part in SPLIT_NAMES:
        looks = sizes_or_faults(dataset.listing().load(part)[0], lambda count: None)
        assert not [look for look in looks if isinstance(look, str)]
    left = {path.suffix: path for path in dataset.prepared.parent.iterdir()}
    assert left.keys() == {"", ".lock"} and left[""] == dataset.prepared


@pytest.mark.parametrize("layout", PACKED)
def test_a_compressed_archive_needs_preparation_and_gets_it(layout: str, copies: dict[str, Path]) -> None:
    root, name = copies[layout], PACKED[layout][0]
    with pytest.raises(InputError, match=f"compressed as a whole.*tausearch data prepare {name}"):
        get_source(small(layout), root)
    dataset_of(BenchmarkRef.parse(small(layout)), root).prepare(None, silent)
    source = get_source(small(layout), root)
    assert [len(source.load(part)[1]) for part in SPLIT_NAMES] == [CLASSES[name] * TRAIN, CLASSES[name] * TEST]


@pytest.mark.parametrize("variant", ["objects", "clutter", "60-per-class", "clutter-60-per-class"])
def test_a_variant_of_caltech_says_its_classes_and_how_many_images_of_each_train(variant: str) -> None:
    names = [f"{folder}/{number}.jpg" for folder in ("001.ant", "257.clutter") for number in range(100)]
    files = {f"256_ObjectCategories/{name}": DiskFile(name, 1, 0) for name in names}
    listing = find_caltech(Tree(Path("caltech256"), files), variant)
    assert listing is not None
    assert listing.class_names == (("001.ant", "257.clutter") if "clutter" in variant else ("001.ant",))
    each = 60 if "60" in variant else 80
    assert listing.load("train")[1].bincount().tolist() == [each] * len(listing.class_names)


def test_clutter_is_known_by_its_name_or_else_its_place() -> None:
    numbers = tuple(map(str, range(257)))
    assert _clutter(("Clutter", "ant")) == "Clutter"
    assert (_clutter(numbers), _clutter(numbers[:256])) == ("256", None)


def test_caltechs_variants(copies: dict[str, Path], tmp_path: Path) -> None:
    root = copies["caltech256 folder"]
    assert get_source("caltech256?partial=yes", root).class_names[0] == "001.thing-0"
    assert get_source("caltech256?variant=clutter&partial=yes", root).class_names[-1] == "257.clutter"
    source = get_source("caltech256?variant=60-per-class&partial=yes", root)
    assert [len(source.load(part)[1]) for part in SPLIT_NAMES] == [
        256 * 5,
        256,
    ]  # fewer than 60: all but one to train on
    with pytest.raises(InputError, match="unknown variant 'all'; allowed: objects, clutter, 60-per-class, clutter-60"):
        get_source("caltech256?variant=all", root)


def test_resisc45s_validation_split(copies: dict[str, Path]) -> None:
    root = copies["resisc45 parquet"]
    images = get_source("resisc45?variant=without-validation&partial=yes", root).load("train")[0]
    assert len(images) == 45 * 3


def test_a_copy_that_is_not_whole_is_refused(copies: dict[str, Path]) -> None:
    source = get_source("mit67", copies["mit67 folder"])
    with pytest.raises(InputError, match="'mit67' in .*: train images: expected 5360, got 268; --partial"):
        source.load("train")
    dataset = dataset_of(BenchmarkRef.parse("caltech256"), copies["caltech256 tar"])
    with pytest.raises(InputError, match="images of both parts: expected 29780, got 1536"):
        dataset.prepare(None, silent)
    with pytest.raises(InputError, match="images of both parts: expected 29780, got 1536"):
        dataset.require_usable(["train"], silent)  # a search, too, though it reads one part
    with pytest.raises(InputError, match="images of both parts: expected 1500, got 1536"):
        replace(dataset, expected=Expected(256, total=1500)).require_usable(["train"], silent)


def test_labels_have_no_gap_and_one_name_each() -> None:
    assert _names_by_label([1, 0, 1], ["b", "a", "b"], "x") == ("a", "b")
    for labels, said in (([0, 2, 2], "labels must be 0 to 1 without a gap, has 2"), ([0, 1, 0], "label 0 stands for")):
        with pytest.raises(InputError, match=f"x: {said}"):
            _names_by_label(labels, ["a", "b", "b"], "x")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "must have the keys data and targets"),
        ({"data": ["a"]}, "must have the keys data and targets"),
        ({"data": "ab", "targets": [0, 1]}, "data must be a list of paths"),
        ({"data": ["a", 1], "targets": [0, 1]}, "data must be a list of paths"),
        ({"data": ["a", "b"], "targets": [0, True]}, "targets must be a list of whole numbers"),
        ({"data": ["a", "b"], "targets": [0, 2**31]}, "targets must be a list of whole numbers"),
    ],
)
def test_a_split_file_lists_paths_and_labels(content: object, said: str) -> None:
    assert checked_split({"data": ["a"], "targets": [2**31 - 1]}, ("data", "targets"), "x") == (["a"], [2**31 - 1])
    with pytest.raises(InputError, match=f"^x: {said}$"):
        checked_split(content, ("data", "targets"), "x")


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("images.txt", None, "images.txt is missing"),
        ("images.txt", "1 a/1.jpg\nb/1.jpg", "images.txt: every line must be a number and a value"),
        ("image_class_labels.txt", "1 1", "image_class_labels.txt and train_test_split.txt differ"),
        ("train_test_split.txt", "1 1", "image_class_labels.txt and train_test_split.txt differ"),
        ("image_class_labels.txt", "1 1\n2 b", "a label is not a whole number"),
        ("image_class_labels.txt", f"1 1\n2 {'9' * 10}", "a label is not a whole number"),
    ],
)
def test_tables_of_cub_that_do_not_fit_are_named(file: str, text: str | None, said: str, tmp_path: Path) -> None:
    tables = {"images": "1 a/1.jpg\n\n2 b/1.jpg", "image_class_labels": "1 1\n2 2", "train_test_split": "1 1\n2 0"}
    files = {f"{name}.txt": table.encode() for name, table in (tables | {"classes": "1 a\n2 b"}).items()}
    put(tmp_path, files | {"images/a/1.jpg": b"", "images/b/1.jpg": b""})
    listing = find_cub(open_tree(tmp_path), "standard")
    assert listing is not None and [listing.load(part)[1].tolist() for part in SPLIT_NAMES] == [[0], [1]]
    (tmp_path / file).unlink() if text is None else (tmp_path / file).write_text(text)
    with pytest.raises(InputError, match=f"{said}$"):
        find_cub(open_tree(tmp_path), "standard")


def test_missing_things_are_named(copies: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'cub200': not found in .*cub200; looks for CUB_200_2011.tgz"):
        get_source("cub200", tmp_path)
    for layout in ("imagenet_r folder", "mit67 folder", "caltech256 folder"):
        linked(copies[layout], tmp_path)
    (tmp_path / "imagenet_r" / "imagenet-r" / "n00000000" / "art_2.jpg").unlink()
    with pytest.raises(
        InputError, match=r"imagenet-r_train.yaml: 1 of 800 images are not there, first n00000000/art_2"
    ):
        get_source("imagenet_r?partial=yes", tmp_path)
    for path in (tmp_path / "mit67" / "Images" / "room_05").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="there is no class folder for 'room_05/0.jpg'"):
        get_source("mit67?partial=yes", tmp_path)
    for path in (tmp_path / "caltech256" / "256_ObjectCategories" / "007.thing-6").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="classes: expected 256, got 255"):
        get_source("caltech256?partial=yes", tmp_path)
    (tmp_path / "resisc45").mkdir()
    for name in ("NWPU-RESISC45.rar", "resisc45_images.tar.gz"):  # the first is named
        (tmp_path / "resisc45" / name).write_bytes(b"Rar!")
    with pytest.raises(InputError, match="NWPU-RESISC45.rar is of a kind that Python cannot read: extract it$"):
        get_source("resisc45", tmp_path)


@pytest.mark.parametrize("archive", ["imagenet-r.tar", "imagenet-r.zip", "imagenet-r.tar.gz"])
def test_a_broken_archive_is_named_in_one_line(archive: str, tmp_path: Path) -> None:
    imagenet_r(tmp_path / "imagenet_r", archive)
    path = tmp_path / "imagenet_r" / archive
    path.write_bytes(path.read_bytes()[:-5000] if archive != "imagenet-r.tar.gz" else b"no archive")
    dataset = dataset_of(BenchmarkRef.parse("imagenet_r?partial=yes"), tmp_path)
    with pytest.raises(InputError, match=r"cannot be (read as an archive|unpacked) \(|images are not there") as caught:
        dataset.prepare(None, silent)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("free", "fits"), [(10**9, True), (1_000_000, False)])
def test_an_archive_is_unpacked_only_onto_a_disk_with_room(
    free: int, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):  # each alone fits; a small file takes a block
        put(tmp_path / "imagenet_r", {f"{name}/{number}.jpg": b"" for number in range(150)}, f"{name}.tar.gz")
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    ticks: list[int] = []
    dataset = dataset_of(BenchmarkRef.parse("imagenet_r?partial=yes"), tmp_path)
    with pytest.raises(InputError, match="not found in" if fits else "its files need more than 90% of the free disk"):
        dataset.prepare(None, lambda name, total: ticks.append)
    assert len(ticks) == 300 if fits else 0 < len(ticks) < 300
    assert not list(tmp_path.rglob("*.jpg"))  # what was unpacked is gone again


def test_an_array_is_read_only_if_the_zip_file_says_a_size_within_the_bound(
    copies: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = copies["cub200 npz"]
    monkeypatch.setattr("trainables.data.disk.arrays.MOST_ARRAY", 2000)
    monkeypatch.setattr("trainables.data.disk.arrays.unpickle", lambda *_: pytest.fail("was read"))
    with pytest.raises(InputError, match=r"train_data.npz: cannot be read \(has [0-9,]+ bytes, at most 2,000 are read"):
        get_source("cub200?partial=yes", bomb).load("train")


def test_a_pickle_cannot_run_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "evil"),)

    folder = tmp_path / "cifar100" / "cifar-100-python"
    folder.mkdir(parents=True)
    (folder / "meta").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(InputError, match="cannot be read as a pickle of arrays"):
        get_source("cifar100", tmp_path)
    assert not (tmp_path / "evil").exists()


def test_class_order_by_seed_is_the_authors(copies: dict[str, Path]) -> None:
    root = copies["cifar100 parquet"]
    natural = get_source("cifar100?partial=yes", root)
    shuffled = get_source("cifar100?class_order=3&partial=yes", root)
    order = np.random.RandomState(3).permutation(100)
    assert natural.class_names == tuple(shuffled.class_names[place] for place in order)
    assert torch.equal(shuffled.load("train")[1], torch.from_numpy(order)[natural.load("train")[1]])
    prints = [build_benchmark(source, "search", reads=Backbone().input).fingerprint for source in (natural, shuffled)]
    assert len(set(prints)) == 2
