"""The generator of each stage of each task, and batches of images."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor

from trainables.data import ImageSet

BATCH = 16  # examples per step of linear probing and fine-tuning


def number(seed: int, *stage: str | int) -> int:
    """The 63-bit number that a trial's seed and the name of a stage give."""
    return int.from_bytes(hashlib.sha256(repr((seed, *stage)).encode()).digest()[:8], "little") >> 1


def drawn(seed: int, *stage: str | int) -> torch.Generator:
    return torch.Generator().manual_seed(number(seed, *stage))


def batches(
    images: ImageSet, size: int, generator: torch.Generator, *, shuffle: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Augmented images and their labels, each once; the last batch may be smaller."""
    assert isinstance(images.images, Tensor)
    n = len(images.labels)
    order = torch.randperm(n, generator=generator) if shuffle else torch.arange(n)
    for start in range(0, n, size):
        rows = order[start : start + size]
        yield images.transform(images.images[rows], generator), images.labels[rows]
