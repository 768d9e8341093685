"""`digits`: scikit-learn's scanned handwritten digits, 10 classes in 5 tasks of 2.

1,797 grey images of 8x8 pixels (Alpaydin and Kaynak 1998, the UCI test part) that ship with scikit-learn. They are
enlarged four times, bilinearly: broad strokes, larger than any character of the pre-training.

`sklearn.datasets.load_digits` takes a second to import, in every process of a search, so its file is read without it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.data.splits import TEST_SEED, TEST_SHARE, SplitName, stratified_split

CHARACTERS = "0123456789"


def load(part: SplitName) -> tuple[Tensor, Tensor]:
    """Return one part of the fixed, stratified 80/20 split: uint8 images `(n, 1, 32, 32)` and int64 labels `(n,)`."""
    ink, labels = scans()
    kept, held_out = stratified_split(labels, TEST_SHARE, TEST_SEED)
    rows = kept if part == "train" else held_out
    large = F.interpolate(ink[rows] / 16, scale_factor=4, mode="bilinear", align_corners=False)
    return large.mul_(255).round_().to(torch.uint8), labels[rows]


def scans() -> tuple[Tensor, Tensor]:
    """Return all published images: ink from 0 to 16, float32 `(1797, 1, 8, 8)`, and int64 labels `(1797,)`."""
    package = find_spec("sklearn")  # imports nothing
    assert package is not None and package.submodule_search_locations is not None, "scikit-learn is a dependency"
    file = Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    table = torch.from_numpy(np.loadtxt(file, delimiter=",", dtype=np.float32))  # [n, 64 pixels and the label]
    return table[:, :64].reshape(-1, 1, 8, 8), table[:, 64].to(torch.int64)
