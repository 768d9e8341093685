"""`digits`: scikit-learn's scanned handwritten digits, 10 classes in 5 tasks of 2.

1,797 grey images of 8x8 pixels (Alpaydin and Kaynak 1998, the UCI test part) that ship with scikit-learn. They are
enlarged four times, bilinearly: broad strokes, larger than any character of the pre-training.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.data.splits import stratified_split

CLASS_NAMES = tuple("0123456789")
TEST_SHARE = 0.2
_TEST_SEED = 0  # fixed: the test split is part of the benchmark, not of an experiment


def load(part: Literal["train", "test"]) -> tuple[Tensor, Tensor]:
    """Read one part of the fixed, stratified 80/20 split.

    Returns:
        uint8 images `(n, 1, 32, 32)` and int64 labels `(n,)`, in memory of their own: no view reaches the other part.
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415  # a second, which trials on other images need not wait

    data = load_digits()
    labels = torch.tensor(data.target, dtype=torch.int64)
    kept, held_out = stratified_split(labels, TEST_SHARE, _TEST_SEED)
    rows = kept if part == "train" else held_out
    small = torch.tensor(data.images[rows.numpy()], dtype=torch.float32).unsqueeze(1) / 16  # ink is 0 to 16
    large = F.interpolate(small, scale_factor=4, mode="bilinear", align_corners=False)
    return large.mul_(255).round_().to(torch.uint8), labels[rows]
