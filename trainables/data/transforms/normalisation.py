"""The contract of transforms, and the last step of all transforms: scaling and normalising."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Protocol

import torch
from torch import Tensor

Images = Tensor | Sequence[Tensor]
"""uint8 images: `(b, c, h, w)` for one size, else `(c, h, w)` each."""


class Transform(Protocol):
    """A function from stored images to the input of a backbone. All randomness comes from the generator argument."""

    def __call__(self, images: Images, generator: torch.Generator | None) -> Tensor:
        """Return float32 `(b, c', h', w')`; only augmentations use `generator`."""


def transform_text(transform: Transform) -> str:
    """Return what digests have of a transform: its repr, or the name of a function, whose repr has an address."""
    if not isinstance(transform, FunctionType) or transform.__closure__ is not None:  # it may have values of its own
        return repr(transform)
    name = transform.__qualname__
    return repr(transform) if "<" in name else f"{transform.__module__}:{name}"  # of a lambda, or defined in a function


def repeatable_text(transform: Transform) -> str:
    """Return `transform_text` without addresses, which are others in each process."""
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", transform_text(transform))


@dataclass(frozen=True)
class Normalise:
    """Scale to [0, 1], then subtract `mean` and divide by `std`, one value per channel. Uses no randomness."""

    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)

    def __call__(self, images: Images, generator: torch.Generator | None = None) -> Tensor:
        """Transform a batch of stored images; see `Transform`."""
        images = of_one_size(images)
        mean, std = (_per_channel(values, images.device) for values in (self.mean, self.std))
        return images.float().div_(255).sub_(mean).div_(std)


@lru_cache(maxsize=64)
def _per_channel(values: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device).view(-1, 1, 1)


def of_one_size(images: Images) -> Tensor:
    """Return images as one tensor; several sizes are a ValueError."""
    if not isinstance(images, Tensor):
        raise ValueError("needs images of one size, got several sizes")
    return images


def with_channels(images: Tensor, normalise: Normalise) -> Tensor:
    """Return `(..., c, h, w)` with the channels of `normalise`: grey is repeated, RGB weighted to grey.

    An image of three equal channels becomes one of them: the weighted sum of equal values rounds some down.
    """
    got, wanted = images.shape[-3], len(normalise.mean)
    if got == wanted:
        return images
    if got == 1:
        return images.expand(*images.shape[:-3], wanted, -1, -1)
    from torchvision.transforms.v2 import functional as vision  # takes two seconds to import

    first = images[..., :1, :, :]
    is_grey = (images == first).flatten(-3).all(-1)[..., None, None, None]
    return torch.where(is_grey, first, vision.rgb_to_grayscale(images))
