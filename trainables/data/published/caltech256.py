"""`caltech256`: 256 kinds of objects (Griffin, Holub and Perona 2007), classes by their official numbers.

The dataset has no split. Neither the paper nor the authors' code names one, or says whether the 257th class, `clutter`,
takes part. Decided here: 256 classes, as in the dataset's name and the paper's tables. 80 % of each class trains, as in
MIT-67, which the paper took from the same source. Variants: `clutter` has 257 classes, `60-per-class` trains on 60
images of each of the 256 (the older habit), `clutter-60-per-class` does both.
"""

from __future__ import annotations

from functools import partial

from trainables.data.disk.listing import Listing, in_class_folders, seeded_split, split_files
from trainables.data.disk.tree import Tree
from trainables.data.published.publication import Expected, Publication, class_folders, find_parquet
from trainables.data.transforms.recipes import IMAGENET, Recipe

_FOLDER = "256_ObjectCategories"
_CLUTTER, _TOTAL, _SIXTY = 827, 30_607, 60


def find(tree: Tree, variant: str) -> Listing | None:
    """Return the official folder or archive, or the Hugging Face form with all its splits joined."""
    split = partial(seeded_split, per_class=_SIXTY if variant.endswith("60-per-class") else None)
    with_clutter = variant.startswith("clutter")
    folder = tree.folder_of(_FOLDER)
    if folder is None:
        return find_parquet(tree, split=split, drop=lambda names: None if with_clutter else _clutter(names))
    files = tree.below(folder)
    names = class_folders(files)
    dropped = None if with_clutter else _clutter(names)
    kept = tuple(name for name in names if name != dropped)
    # Only images directly in a class folder: `056.dog/greg` is a leftover with copies of other images.
    return Listing(kept, split_files(in_class_folders(files, kept, where=f"{folder}/"), split), "class folders")


def _clutter(names: tuple[str, ...]) -> str | None:
    named = [name for name in names if "clutter" in name.lower()]
    return named[0] if named else names[256] if len(names) == 257 else None


_OBJECTS = Expected(256, total=_TOTAL - _CLUTTER)
_ALL = Expected(257, total=_TOTAL)

CALTECH256 = Publication(
    name="caltech256",
    tasks=10,
    epochs=5,
    recipe=Recipe(
        IMAGENET, train_resize=256, train_keep_ratio=True, test_keep_ratio=True, test_interpolation="bilinear"
    ),
    expected={
        "objects": _OBJECTS,
        "clutter": _ALL,
        "60-per-class": Expected(256, {"train": 256 * _SIXTY}, _TOTAL - _CLUTTER),
        "clutter-60-per-class": Expected(257, {"train": 257 * _SIXTY}, _TOTAL),
    },
    find=find,
    looks_for="256_ObjectCategories.tar or 256_ObjectCategories/<number>.<name>/*.jpg; or Parquet",
    source="https://data.caltech.edu/records/nyy15-4j048 (256_ObjectCategories.tar)",
)
