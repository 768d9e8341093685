"""`resisc45`: 45 kinds of land seen from the air (Cheng, Han and Lu 2017, NWPU-RESISC45), classes by name.

The paper says 30,000 images; the dataset has 45 x 700 = 31,500 and is checked against that. It has no official split.
Taken in this order: the splits of the Hugging Face form, 18,900 / 6,300 / 6,300, the middle one joining the training
part (80/20), since a search holds out its own validation images; the authors' split files where they lie beside the
images; else a seeded 80/20 split of each class. Variant `without-validation` leaves that middle split out.
"""

from __future__ import annotations

from trainables.data.disk.listing import Listing
from trainables.data.disk.tree import Tree
from trainables.data.published.publication import (
    STANDARD,
    Expected,
    Publication,
    find_parquet,
    listing_from_class_folders,
    listing_from_yaml,
)
from trainables.data.transforms.recipes import IMAGENET, Recipe

_SPLITS = ("resisc45_train.yaml", "resisc45_test.yaml")
_TOTAL, _VALIDATION = 31_500, 6_300


def find(tree: Tree, variant: str) -> Listing | None:
    """Return class folders or an archive with or without split files, or the Hugging Face form."""
    if parquet := find_parquet(tree, validation_trains=variant == STANDARD):
        return parquet
    listing = listing_from_yaml(
        tree,
        _SPLITS,
        components=1,
        class_of=lambda path: path.rsplit("_", 1)[0],
        layout="class folders with the authors' split files",
    )
    return listing or listing_from_class_folders(tree)


RESISC45 = Publication(
    name="resisc45",
    tasks=9,
    epochs=30,
    recipe=Recipe(IMAGENET),
    expected={STANDARD: Expected(45, total=_TOTAL), "without-validation": Expected(45, total=_TOTAL - _VALIDATION)},
    find=find,
    looks_for="resisc45_images.tar.gz or <class>/*.jpg, with resisc45_train.yaml and resisc45_test.yaml or without;"
    " or Parquet (timm/resisc45)",
    source="https://huggingface.co/datasets/aimagelab-ta/resisc45 (the authors' split),"
    " https://huggingface.co/datasets/timm/resisc45",
)
