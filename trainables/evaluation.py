"""Accuracy and risk of a classifier on sets of images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from trainables.data import ImageSet

EVALUATION_BATCH = 256
Predict = Callable[[Tensor], Tensor]


def answers(predict: Predict, images: ImageSet, device: torch.device | str) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the logits `(b, C)` of images `(b, c, h, w)` and their labels `(b,)`, 0 to C - 1, batch by batch."""
    for batch in images.batches(EVALUATION_BATCH, None, shuffle=False, device=device):
        yield predict(batch.x), batch.y


def accuracy(predict: Predict, images: ImageSet, device: torch.device | str) -> float:
    """Return the accuracy in percent; of equal logits the first counts."""
    correct = torch.zeros((), dtype=torch.int64, device=device)
    for logits, labels in answers(predict, images, device):
        correct += (logits.argmax(1) == labels).sum()
    return 100.0 * int(correct) / len(images)


def accuracies(predict: Predict, sets: Iterable[ImageSet], device: torch.device | str) -> list[float]:
    """Return the accuracy on each set, in percent."""
    return [accuracy(predict, images, device) for images in sets]


def accuracies_without(
    predict: Predict, images: ImageSet, classes: range, device: torch.device | str
) -> tuple[float, float]:
    """Return the accuracy over the logits of all classes, and over those of all but some classes, in percent."""
    correct = torch.zeros(2, dtype=torch.int64, device=device)
    for logits, labels in answers(predict, images, device):
        others = logits.clone()
        others[:, classes.start : classes.stop] = -torch.inf
        correct += torch.stack([(each.argmax(1) == labels).sum() for each in (logits, others)])
    whole, without = (100.0 * count / len(images) for count in correct.tolist())
    return whole, without


def risk(predict: Predict, sets: Sequence[ImageSet], device: torch.device | str) -> float:
    """Return the empirical risk: the mean cross-entropy over the images of all sets together, nats."""
    total = torch.zeros((), dtype=torch.float64, device=device)
    for images in sets:
        for logits, labels in answers(predict, images, device):
            total += F.cross_entropy(logits, labels, reduction="sum").double()
    return float(total) / sum(map(len, sets))
