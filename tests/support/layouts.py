"""Small copies of every published layout, drawn: real archives, split files, pickles and Parquet files."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import yaml
from PIL import Image

from trainables.data.embedded.characters import BENCHMARK, PRETRAINING
from trainables.data.embedded.drawing import TRAIN_FACES, draw, render
from trainables.data.published.cropdisease import _LEFT_OUT, _NAMES

TRAIN, TEST = 4, 2  # images of a class
EACH = TRAIN + TEST


@cache
def drawn(classes: int) -> np.ndarray:
    """`EACH` grey images of every class: uint8 `(classes * EACH, 32, 32)`, a character a class."""
    rendered = render((BENCHMARK + PRETRAINING)[:classes], TRAIN_FACES[:1])
    labels = torch.arange(classes).repeat_interleave(EACH)
    return draw(rendered, labels, torch.Generator().manual_seed(0))[:, 0].numpy()


def pixels(classes: int, label: int, number: int) -> np.ndarray:
    """RGB image `(h, w, 3)`; sizes differ, and the colour shows which image it is."""
    grey = drawn(classes)[label * EACH + number]
    wide = np.repeat(grey, 1 + (number % 2), axis=1)
    return np.stack([wide, 255 - wide, np.full_like(wide, 40 * number)], axis=2)


@cache
def encoded(classes: int, label: int, number: int, form: str = "PNG") -> bytes:
    target = io.BytesIO()
    Image.fromarray(pixels(classes, label, number)).save(target, form)
    return target.getvalue()


def put(root: Path, files: dict[str, bytes], archive: str | None = None) -> None:
    """Write files into a folder, or into an archive in it; a name that ends with "/" is an empty folder."""
    root.mkdir(parents=True, exist_ok=True)
    if archive is None:
        for name, content in files.items():
            folder, _, file = name.rpartition("/")
            (root / folder).mkdir(parents=True, exist_ok=True)
            if file:
                (root / name).write_bytes(content)
    elif archive.endswith(".zip"):
        with zipfile.ZipFile(root / archive, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, content in files.items():
                zipped.writestr(name, content)
    else:
        with tarfile.open(root / archive, "w:gz" if archive.endswith("gz") else "w") as tar:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def parquet(path: Path, rows: list[dict], names: list[str] | None, label: str = "label", image: str = "image") -> None:
    """Write Parquet as Hugging Face's `datasets` does, with the class names in the metadata."""
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([(image, kind), (label, pa.int64())])
    if names is not None:
        features = {image: {"_type": "Image"}, label: {"names": names, "_type": "ClassLabel"}}
        schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    table = pa.Table.from_pylist(
        [{image: {"bytes": r["bytes"], "path": r["path"]}, label: r["label"]} for r in rows], schema
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=7)


def rows(classes: int, numbers: range, name: Callable[[int, int], str]) -> list[dict]:
    return [
        {"bytes": encoded(classes, label, number), "path": name(label, number), "label": label}
        for label in range(classes)
        for number in numbers
    ]


def as_yaml(content: dict[str, list]) -> str:
    return yaml.dump(content, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))


def imagenet_r(root: Path, archive: str | None = None) -> None:
    wnids = [f"n{(label * 7919) % 10007:08d}" for label in range(200)]  # labels are not in the order of the names
    images = {
        f"{wnids[label]}/art_{number}.jpg": encoded(200, label, number, "JPEG")
        for label in range(200)
        for number in range(EACH)
    }
    put(root, {f"imagenet-r/{name}": content for name, content in images.items()}, archive)
    for part, numbers in (("train", range(TRAIN)), ("test", range(TRAIN, EACH))):
        chosen = [(label, number) for number in numbers for label in range(200)]
        paths = [f"data/imagenet-r/{wnids[label]}/art_{number}.jpg" for label, number in chosen]
        split = {"data": paths, "targets": [label for label, _ in chosen]}
        (root / f"imagenet-r_{part}.yaml").write_text(as_yaml(split))


def cifar100(root: Path, archive: str | None = None) -> None:
    names = [f"class_{number}".encode() for number in range(100)]
    files = {"meta": pickle.dumps({b"fine_label_names": names})}
    for part, numbers in (("train", range(TRAIN)), ("test", range(TRAIN, EACH))):
        chosen = [(label, number) for number in numbers for label in range(100)]
        grey = drawn(100)[[label * EACH + number for label, number in chosen]]
        data = np.stack([grey, 255 - grey, grey // 2], axis=1).reshape(len(chosen), -1)
        files[part] = pickle.dumps({b"data": data, b"fine_labels": [label for label, _ in chosen], b"filenames": []})
    put(root, {f"cifar-100-python/{name}": content for name, content in files.items()}, archive)


def cifar100_parquet(root: Path) -> None:
    names = [f"class_{number}" for number in range(100)]
    for part, numbers in (("train", range(TRAIN)), ("test", range(TRAIN, EACH))):
        listed = rows(100, numbers, lambda label, number: f"{label}_{number}.png")
        parquet(root / "cifar100" / f"{part}-00000-of-00001.parquet", listed, names, "fine_label", "img")


def cub200(root: Path, archive: str | None = None) -> None:
    names = [f"{label + 1:03d}.Bird_{label}" for label in range(200)]
    chosen = [(label, number) for label in range(200) for number in range(EACH)]
    paths = [f"{names[label]}/bird_{number}.jpg" for label, number in chosen]
    files = {f"images/{path}": encoded(200, *image, "JPEG") for path, image in zip(paths, chosen, strict=True)}
    tables = {
        "images.txt": paths,
        "classes.txt": names,
        "image_class_labels.txt": [str(label + 1) for label, _ in chosen],
        "train_test_split.txt": [str(int(number < TRAIN)) for _, number in chosen],
    }
    for name, values in tables.items():
        files[name] = "".join(f"{row} {value}\n" for row, value in enumerate(values, start=1)).encode()
    put(root, {f"CUB_200_2011/{name}": content for name, content in files.items()}, archive)


def cub200_npz(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for part, numbers in (("train", range(TRAIN)), ("test", range(TRAIN, EACH))):
        chosen = [(label, number) for label in range(200) for number in numbers]
        data = np.empty(len(chosen), dtype=object)
        for row, image in enumerate(chosen):
            data[row] = pixels(200, *image)
        targets = np.array([label for label, _ in chosen])
        np.savez(root / f"{part}_data.npz", data=data, targets=targets, classes=targets, segs=targets)


def caltech_names() -> list[str]:
    return [f"{label + 1:03d}.thing-{label}" for label in range(256)] + ["257.clutter"]


def caltech256(root: Path, archive: str | None = None) -> None:
    names = caltech_names()
    files = {
        f"{names[label]}/{label + 1:03d}_{number:04d}.jpg": encoded(257, label, number, "JPEG")
        for label in range(257)
        for number in range(EACH)
    }
    files[f"{names[55]}/greg/056_0001.jpg"] = encoded(257, 55, 0, "JPEG")  # leftovers of the official archive
    files[f"{names[197]}/RENAME2"] = b"#!/bin/sh"
    put(root, {f"256_ObjectCategories/{name}": content for name, content in files.items()}, archive)


def caltech256_parquet(root: Path) -> None:
    """Three splits with labels from 1, which are taken together."""
    names = {"train": range(4), "validation": range(4, 5), "test": range(5, 6)}
    for part, numbers in names.items():
        listed = [
            {"bytes": encoded(257, label, n, "JPEG"), "path": f"{label + 1:03d}_{n:04d}.jpg", "label": label + 1}
            for label in range(257)
            for n in numbers
        ]
        parquet(root / "data" / f"{part}-00000-of-00001.parquet", listed, None)


def mit67(root: Path, archive: str | None = None) -> None:
    names = [f"room_{label:02d}" for label in range(67)]
    files = {
        f"Images/{names[label]}/{number}.jpg": encoded(67, label, number, "GIF" if label == 3 else "JPEG")
        for label in range(67)
        for number in range(EACH)
    }
    put(root, files, archive)
    for part, numbers in (("Train", range(TRAIN)), ("Test", range(TRAIN, EACH))):
        lines = [f"{name}/{number}.jpg" for number in numbers for name in names]
        (root / f"{part}Images.txt").write_text("\n".join(lines) + "\n")


def resisc_files() -> dict[str, bytes]:
    return {
        f"land_{label:02d}/land_{label:02d}_{number:03d}.jpg": encoded(45, label, number, "JPEG")
        for label in range(45)
        for number in range(EACH)
    }


def resisc45(root: Path, archive: str | None = None) -> None:
    images = {f"NWPU-RESISC45/{name}": content for name, content in resisc_files().items()}
    put(root, {"README.txt": b"less deep than any image", **images}, archive)


def resisc45_split(root: Path, archive: str | None = None) -> None:
    resisc45(root, archive)
    for part, numbers in (("train", range(TRAIN)), ("test", range(TRAIN, EACH))):
        chosen = [(label, number) for number in numbers for label in range(45)]
        paths = [f"NWPU-RESISC45/land_{label:02d}/land_{label:02d}_{number:03d}.jpg" for label, number in chosen]
        split = {"data": paths, "targets": [label for label, _ in chosen]}
        (root / f"resisc45_{part}.yaml").write_text(as_yaml(split))


def resisc45_parquet(root: Path) -> None:
    names = [f"land {label:02d}" for label in range(45)]
    for part, numbers in (("train", range(3)), ("validation", range(3, 4)), ("test", range(4, 6))):
        listed = rows(45, numbers, lambda label, number: f"{label}_{number}.jpg")
        parquet(root / "data" / f"{part}-00000-of-00001.parquet", listed, names)


def cropdisease(root: Path, *, folder: bool = False) -> None:
    for part, numbers in (("train", range(TRAIN)), ("test", range(TRAIN, EACH))):
        listed = rows(35, numbers, lambda label, number: f"leaf_{label}_{number}.jpg")
        root.mkdir(parents=True, exist_ok=True)
        split = {"data": [row["path"] for row in listed], "labels": [row["label"] for row in listed]}
        (root / f"{part}.json").write_text(json.dumps(split))
        if folder:
            put(root / "images", {row["path"]: row["bytes"] for row in listed})
            continue
        backwards = listed[::-1]
        table = pa.table({"filename": [r["path"] for r in backwards], "image_bytes": [r["bytes"] for r in backwards]})
        pq.write_table(table, root / f"cropdisease_{part}.parquet")


def plantvillage(root: Path) -> None:
    names = sorted([*_NAMES, *_LEFT_OUT])
    files = {
        f"color/{name}/{number}.JPG": encoded(38, label, number, "JPEG")
        for label, name in enumerate(names)
        for number in range(EACH)
    }
    put(root, files)


LAYOUTS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "imagenet_r folder": ("imagenet_r", imagenet_r),
    "imagenet_r tar": ("imagenet_r", lambda root: imagenet_r(root, "imagenet-r.tar")),
    "cifar100 folder": ("cifar100", cifar100),
    "cifar100 parquet": ("cifar100", cifar100_parquet),
    "cub200 folder": ("cub200", cub200),
    "cub200 npz": ("cub200", cub200_npz),
    "caltech256 folder": ("caltech256", caltech256),
    "caltech256 tar": ("caltech256", lambda root: caltech256(root, "256_ObjectCategories.tar")),
    "caltech256 parquet": ("caltech256", caltech256_parquet),
    "mit67 folder": ("mit67", mit67),
    "mit67 tar": ("mit67", lambda root: mit67(root, "indoorCVPR_09.tar")),
    "resisc45 folder": ("resisc45", resisc45),
    "resisc45 zip": ("resisc45", lambda root: resisc45(root, "NWPU-RESISC45.zip")),
    "resisc45 split files": ("resisc45", resisc45_split),
    "resisc45 parquet": ("resisc45", resisc45_parquet),
    "cropdisease parquet": ("cropdisease", cropdisease),
    "cropdisease split files": ("cropdisease", lambda root: cropdisease(root, folder=True)),
    "cropdisease folder": ("cropdisease", plantvillage),
}
PACKED: dict[str, tuple[str, Callable[[Path], None]]] = {
    "cifar100 tar.gz": ("cifar100", lambda root: cifar100(root, "cifar-100-python.tar.gz")),
    "imagenet_r tar.gz": ("imagenet_r", lambda root: imagenet_r(root, "imagenet-r.tar.gz")),
    "cub200 tgz": ("cub200", lambda root: cub200(root, "CUB_200_2011.tgz")),
    "resisc45 tar.gz": ("resisc45", lambda root: resisc45_split(root, "resisc45_images.tar.gz")),
}
