"""Images in memory, and how batches of them are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Transform(Protocol):
    """Turns a batch of stored images into what the backbone reads."""

    def __call__(self, images: Tensor, generator: torch.Generator | None) -> Tensor:
        """Map uint8 `(b, c, h, w)` to float32 `(b, c', h', w')`; only augmentations use `generator`."""
        ...


@dataclass(frozen=True)
class Normalise:
    """Scale to [0, 1], then subtract `mean` and divide by `std`. Uses no randomness."""

    mean: float = 0.5
    std: float = 0.5

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """See `Transform`."""
        return images.float().div_(255).sub_(self.mean).div_(self.std)


@dataclass(frozen=True)
class RandomShift:
    """Shift each image by up to `pixels` in both directions, its border repeated, then normalise."""

    pixels: int
    normalise: Normalise = Normalise()

    def __call__(self, images: Tensor, generator: torch.Generator | None) -> Tensor:
        """See `Transform`.

        Returns:
            float32 `(b, c, h, w)`.

        Raises:
            ValueError: If `generator` is None; an augmentation never draws from the global random state.
        """
        if generator is None:
            raise ValueError("RandomShift needs a generator, got None")
        b, _, h, w = images.shape
        k = self.pixels
        padded = F.pad(images.float(), (k, k, k, k), mode="replicate").to(images.dtype)
        offsets = torch.randint(2 * k + 1, (2, b), generator=generator).to(images.device)
        rows = offsets[0][:, None] + torch.arange(h, device=images.device)  # [b, h]
        columns = offsets[1][:, None] + torch.arange(w, device=images.device)  # [b, w]
        index = torch.arange(b, device=images.device)
        shifted = padded[index[:, None, None], :, rows[:, :, None], columns[:, None, :]]  # [b, h, w, c]
        return self.normalise(shifted.permute(0, 3, 1, 2))


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
