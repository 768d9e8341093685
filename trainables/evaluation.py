"""Accuracy and risk of a classifier on sets of images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.data import ImageSet

EVALUATION_BATCH = 256
Predict = Callable[[Tensor], Tensor]


def accuracy(predict: Predict, images: ImageSet, device: torch.device | str) -> float:
    """Return the accuracy in percent; of equal logits the first counts.

    `predict` maps images `(b, c, h, w)` to logits `(b, C)`; labels are in 0, ..., C - 1.
    """
    correct = torch.zeros((), dtype=torch.int64, device=device)
    for batch in images.batches(EVALUATION_BATCH, None, shuffle=False, device=device):
        correct += (predict(batch.x).argmax(1) == batch.y).sum()
    return 100.0 * int(correct) / len(images)


def accuracies(predict: Predict, sets: Iterable[ImageSet], device: torch.device | str) -> list[float]:
    """Return the accuracy on each set, in percent."""
    return [accuracy(predict, images, device) for images in sets]


def risk(predict: Predict, sets: Sequence[ImageSet], device: torch.device | str) -> float:
    """Return the empirical risk: the mean cross-entropy over the images of all sets together, nats."""
    total = torch.zeros((), dtype=torch.float64, device=device)
    for images in sets:
        for batch in images.batches(EVALUATION_BATCH, None, shuffle=False, device=device):
            total += F.cross_entropy(predict(batch.x), batch.y, reduction="sum").double()
    return float(total) / sum(map(len, sets))
