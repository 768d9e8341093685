"""`cropdisease`: healthy and infected leaves of 35 kinds (PlantVillage, Hughes and Salathe 2015), classes by name.

PlantVillage has 38 classes; the authors leave out three: cedar rust of apples, and healthy peaches and potatoes. Their
split files alone say how many images a part has. PlantVillage's own class folders have no split and are split 80/20 by
a fixed seed.
"""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import torch

from trainables.data.disk.listing import Listing, Rows, from_split_file, is_image, require_listed
from trainables.data.disk.parquet import ParquetImages, find_columns, parquet_images, read_paths
from trainables.data.disk.tree import Tree
from trainables.data.published.publication import (
    STANDARD,
    Expected,
    Publication,
    checked_split,
    ending,
    find_parquet,
    listing_from_class_folders,
)
from trainables.data.splits import SPLIT_NAMES, SplitName
from trainables.data.transforms.recipes import IMAGENET, Recipe
from trainables.errors import InputError

_LEFT_OUT = ("Apple___Cedar_apple_rust", "Peach___healthy", "Potato___healthy")
_CORN, _CHERRY = "Corn_(maize)___", "Cherry_(including_sour)___"
# PlantVillage's folders, in the order of the authors' labels.
_NAMES = (
    *(f"Apple___{name}" for name in ("Apple_scab", "Black_rot", "healthy")),
    "Blueberry___healthy",
    *(f"{_CHERRY}{name}" for name in ("Powdery_mildew", "healthy")),
    *(f"{_CORN}{name}" for name in ("Cercospora_leaf_spot Gray_leaf_spot", "Common_rust_", "Northern_Leaf_Blight")),
    f"{_CORN}healthy",
    *(f"Grape___{name}" for name in ("Black_rot", "Esca_(Black_Measles)", "Leaf_blight_(Isariopsis_Leaf_Spot)")),
    "Grape___healthy",
    "Orange___Haunglongbing_(Citrus_greening)",
    "Peach___Bacterial_spot",
    *(f"Pepper,_bell___{name}" for name in ("Bacterial_spot", "healthy")),
    *(f"Potato___{name}" for name in ("Early_blight", "Late_blight")),
    "Raspberry___healthy",
    "Soybean___healthy",
    "Squash___Powdery_mildew",
    *(f"Strawberry___{name}" for name in ("Leaf_scorch", "healthy")),
    *(f"Tomato___{name}" for name in ("Bacterial_spot", "Early_blight", "Late_blight", "Leaf_Mold")),
    *(f"Tomato___{name}" for name in ("Septoria_leaf_spot", "Spider_mites Two-spotted_spider_mite", "Target_Spot")),
    *(f"Tomato___{name}" for name in ("Tomato_Yellow_Leaf_Curl_Virus", "Tomato_mosaic_virus", "healthy")),
)


def find(tree: Tree, variant: str) -> Listing | None:
    """Return the authors' files, PlantVillage's class folders or the Hugging Face form."""
    if all(tree.find(f"{part}.json") for part in SPLIT_NAMES):
        return Listing(_NAMES, partial(_listed, tree), "the authors' split files")
    return listing_from_class_folders(tree, left_out=_LEFT_OUT) or find_parquet(tree)


def _listed(tree: Tree, part: SplitName) -> Rows:
    split = str(tree.find(f"{part}.json"))
    try:
        content = json.loads(tree.text(split))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{tree.root / split}: is not valid JSON") from error
    paths, labels = checked_split(content, ("data", "labels"), str(tree.root / split))
    parquet = tree.find(f"cropdisease_{part}.parquet")
    if parquet is not None:
        return _in_parquet(tree.path_on_disk(parquet), paths, split), torch.tensor(labels, dtype=torch.int64)
    # PlantVillage has grey and segmented images under the same names.
    colour_last = sorted(tree.entries.items(), key=lambda item: "/color/" in f"/{item[0]}")
    files = {ending(path, 1): entry for path, entry in colour_last if is_image(path)}
    return from_split_file(files, [ending(path, 1) for path in paths], labels, split_file=split)


def _in_parquet(file: str, paths: list[str], split: str) -> ParquetImages:
    columns = find_columns(file)
    row_of = {path: row for row, path in enumerate(read_paths([file], columns) or [])}
    require_listed(paths, row_of, split, f"in {file}")
    return parquet_images([file], columns.image, np.array([row_of[path] for path in paths]))


CROPDISEASE = Publication(
    name="cropdisease",
    tasks=7,
    epochs=5,
    recipe=Recipe(IMAGENET, test_resize=224, test_keep_ratio=True),
    expected={STANDARD: Expected(35)},
    find=find,
    looks_for="train.json and test.json, with cropdisease_train.parquet and cropdisease_test.parquet or images/;"
    " or PlantVillage's colour class folders; or Parquet",
    source="https://huggingface.co/datasets/aimagelab-ta/cropdisease",
)
