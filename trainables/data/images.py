"""Images in memory, and how batches of them are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.data.transforms import Transform


@dataclass(frozen=True)
class ImageSet:
    """Images with labels and the transform that prepares them.

    Attributes:
        images: uint8 `(n, c, h, w)`.
        labels: int64 `(n,)`; the position of the class in the benchmark's class order, so task 1 has 0, 1, ...
        transform: Applied to every batch.
    """

    images: Tensor
    labels: Tensor
    transform: Transform

    def __len__(self) -> int:
        return len(self.labels)

    def batches(
        self, batch_size: int, generator: torch.Generator | None, *, shuffle: bool, device: torch.device | str = "cpu"
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield `(x, y)` once over the set; the last batch may be smaller, nothing is dropped.

        Args:
            batch_size: Examples per batch.
            generator: Source of the order and of the augmentation; None where neither draws.
            shuffle: Whether to permute the examples.
            device: Where the batches shall lie.

        Yields:
            x float32 `(b, c, h, w)` and y int64 `(b,)`.
        """
        order = torch.randperm(len(self), generator=generator) if shuffle else torch.arange(len(self))
        for chosen in order.split(batch_size):
            images = self.images[chosen].to(device)
            yield self.transform(images, generator), self.labels[chosen].to(device)
