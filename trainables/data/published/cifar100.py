"""`cifar100`: 100 classes of 32x32 photographs (Krizhevsky 2009), classes in order of their fine labels.

Images are normalised with mean and standard deviation 0.5, as the authors' configuration for these methods has it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from trainables.data.disk.arrays import unpickle
from trainables.data.disk.listing import Listing, Rows
from trainables.data.disk.tree import Tree
from trainables.data.parts import PARTS, Part
from trainables.data.published._reading import STANDARD, find_parquet
from trainables.data.published.publication import Expected, Publication
from trainables.data.transforms.recipes import HALF, Recipe
from trainables.errors import InputError


def find(tree: Tree, variant: str) -> Listing | None:
    """Return the extracted Python version or the Hugging Face form."""
    meta = tree.find("meta")
    if meta is None:
        return find_parquet(tree, label="fine_label")
    folder = meta.removesuffix("meta")
    names = _field(unpickle(tree.entries[meta].read(), meta), b"fine_label_names", meta)

    def rows(part: Part) -> Rows:
        path = f"{folder}{part}"
        if path not in tree.entries:
            raise InputError(f"{tree.root}: {path} is missing beside {meta}")
        content = unpickle(tree.entries[path].read(), path)
        pixels = np.asarray(_field(content, b"data", path), dtype=np.uint8)
        labels = torch.tensor(_field(content, b"fine_labels", path), dtype=torch.int64)
        if pixels.shape != (len(labels), 3 * 32 * 32):
            raise InputError(f"{path}: must hold rows of 3,072 bytes, one per label, got {pixels.shape}")
        return torch.from_numpy(pixels.reshape(-1, 3, 32, 32).copy()), labels

    return Listing(
        tuple(name.decode() for name in names), {part: partial(rows, part) for part in PARTS}, "Python version"
    )


def _field(content: Any, key: bytes, path: str) -> Any:
    if not isinstance(content, dict) or key not in content:
        raise InputError(f"{path}: has no {key.decode()!r}")
    return content[key]


CIFAR100 = Publication(
    name="cifar100",
    tasks=10,
    epochs=20,
    recipe=Recipe(normalise=HALF, test_keep_ratio=True),
    expected={STANDARD: Expected(100, {"train": 50_000, "test": 10_000})},
    find=find,
    looks_for="cifar-100-python.tar.gz or cifar-100-python/{train,test,meta}; or Parquet (uoft-cs/cifar100)",
    source="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
)
