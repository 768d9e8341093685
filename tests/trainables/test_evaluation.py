"""Accuracy of any function from images to logits."""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.data import ImageSet
from trainables.data.transforms import Normalise
from trainables.evaluation import EVALUATION_BATCH, accuracies, accuracy


def images_of(labels: Tensor) -> ImageSet:
    """Images whose first pixel is their label."""
    pixels = torch.zeros(len(labels), 1, 2, 2, dtype=torch.uint8)
    pixels[:, 0, 0, 0] = labels
    return ImageSet(pixels, labels, Normalise())


def test_percent_of_the_whole_set_over_uneven_batches() -> None:
    labels = torch.arange(EVALUATION_BATCH + 44) % 4
    sizes = []

    def predict(x: Tensor) -> Tensor:
        sizes.append(len(x))
        values = x[:, 0, 0, 0]
        ranks = torch.unique(values, return_inverse=True)[1]
        return torch.nn.functional.one_hot(ranks.clamp(max=2), 4).float()  # class 3 is taken for class 2

    sets = [images_of(labels), images_of(labels[labels < 3])]
    assert accuracies(predict, sets, "cpu") == [75.0, 100.0]
    assert sizes == [EVALUATION_BATCH, 44, 225]
    assert accuracy(lambda x: torch.zeros(len(x), 4), sets[0], torch.device("cpu")) == 25.0  # of equals the first
