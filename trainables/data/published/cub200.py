"""`cub200`: 200 species of birds (Wah et al. 2011, CUB-200-2011), the official split, classes by their official ids."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from trainables.data.disk.arrays import NpzImages, read_npz
from trainables.data.disk.listing import FileRows, Listing, Rows, labelled_files, listed_files, require_listed
from trainables.data.disk.tree import Tree
from trainables.data.published.publication import STANDARD, Expected, Publication, find_parquet
from trainables.data.splits import SPLIT_NAMES, SplitName
from trainables.data.transforms.recipes import IMAGENET, Recipe
from trainables.errors import InputError

_CLASSES = 200


def find(tree: Tree, variant: str) -> Listing | None:
    """Return the official folder, the authors' arrays or the Hugging Face form."""
    split = tree.find("train_test_split.txt")
    if split is not None:
        return _official(tree, split.removesuffix("train_test_split.txt"))
    if all(tree.find(f"{part}_data.npz") for part in SPLIT_NAMES):
        names = tuple(f"{number:03d}" for number in range(1, _CLASSES + 1))
        return Listing(names, partial(_arrays, tree), "numpy arrays")
    return find_parquet(tree)


def _official(tree: Tree, folder: str) -> Listing:
    def table(name: str) -> dict[int, str]:
        path = f"{folder}{name}"
        if path not in tree.entries:
            raise InputError(f"{tree.root}: {path} is missing")
        rows = (line.split(maxsplit=1) for line in tree.text(path).splitlines() if line.strip())
        try:
            return {int(number): value.strip() for number, value in rows}
        except ValueError as error:
            raise InputError(f"{tree.root / path}: every line must be a number and a value") from error

    paths, labels, trains = table("images.txt"), table("image_class_labels.txt"), table("train_test_split.txt")
    classes = table("classes.txt")
    if not paths.keys() == labels.keys() == trains.keys():
        raise InputError(f"{tree.root / folder}: images.txt, image_class_labels.txt and train_test_split.txt differ")
    files = tree.below(f"{folder}images")
    require_listed(list(paths.values()), files, str(tree.root / folder))
    if not all(label.isdecimal() and len(label) < 10 for label in labels.values()):
        raise InputError(f"{tree.root / folder}image_class_labels.txt: a label is not a whole number")

    def chosen(flag: str) -> FileRows:
        ids = [number for number in sorted(paths) if trains[number] == flag]
        return labelled_files((paths[number], files[paths[number]], int(labels[number]) - 1) for number in ids)

    names = tuple(classes[number] for number in sorted(classes))
    return Listing(names, listed_files(chosen("1"), chosen("0")), "CUB_200_2011 with its split")


def _arrays(tree: Tree, part: SplitName) -> Rows:
    path = str(tree.find(f"{part}_data.npz"))
    entry = tree.entries[path]
    labels: Any = read_npz(entry, "targets", path)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise InputError(f"{path}: targets must be whole numbers, got {labels.dtype} {labels.shape}")
    return NpzImages(path, entry, len(labels), np.arange(len(labels))), torch.tensor(labels.astype("int64"))


CUB200 = Publication(
    name="cub200",
    tasks=10,
    epochs=50,
    recipe=Recipe(normalise=IMAGENET, train_resize=300, test_keep_ratio=True),
    expected={STANDARD: Expected(_CLASSES, {"train": 5_994, "test": 5_794})},
    find=find,
    looks_for="CUB_200_2011.tgz or CUB_200_2011/ with images.txt, classes.txt, image_class_labels.txt and"
    " train_test_split.txt; train_data.npz and test_data.npz (aimagelab-ta/cub200); or Parquet",
    source="https://data.caltech.edu/records/65de6-vp158 (CUB_200_2011.tgz)",
)
