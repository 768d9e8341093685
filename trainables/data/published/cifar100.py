"""`cifar100`: 100 classes of 32x32 photographs (Krizhevsky 2009), classes in order of their fine labels.

Images are normalised with mean and standard deviation 0.5, as the authors' configuration for these methods has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from trainables.data.disk.arrays import unpickle
from trainables.data.disk.listing import Listing, Rows
from trainables.data.disk.tree import Tree
from trainables.data.published.publication import STANDARD, Expected, Publication, find_parquet
from trainables.data.splits import SplitName
from trainables.data.transforms.recipes import HALF, Recipe
from trainables.errors import InputError


def find(tree: Tree, variant: str) -> Listing | None:
    """Return the extracted Python version or the Hugging Face form."""
    meta = tree.find("meta")
    if meta is None:
        return find_parquet(tree, label="fine_label")
    folder = meta.removesuffix("meta")
    names = _field(unpickle(tree.content(meta), meta), b"fine_label_names", meta)
    if not isinstance(names, list) or not all(isinstance(name, bytes) and name.isascii() for name in names):
        raise InputError(f"{meta}: 'fine_label_names' must be a list of names")

    def rows(part: SplitName) -> Rows:
        path = f"{folder}{part}"
        if path not in tree.entries:
            raise InputError(f"{tree.root}: {path} is missing beside {meta}")
        content = unpickle(tree.content(path), path)
        pixels, numbers = _field(content, b"data", path), _field(content, b"fine_labels", path)
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8:
            raise InputError(f"{path}: 'data' must be an array of bytes")
        if not isinstance(numbers, list) or not all(type(number) is int and abs(number) < 2**31 for number in numbers):
            raise InputError(f"{path}: 'fine_labels' must be a list of whole numbers")
        labels = torch.tensor(numbers, dtype=torch.int64)
        if pixels.shape != (len(labels), 3 * 32 * 32):
            raise InputError(f"{path}: must hold rows of 3,072 bytes, one per label, got {pixels.shape}")
        return torch.from_numpy(pixels.reshape(-1, 3, 32, 32).copy()), labels

    return Listing(tuple(name.decode() for name in names), rows, "Python version")


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
