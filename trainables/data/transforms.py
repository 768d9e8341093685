"""Augmentation and normalisation of batches. All randomness comes from a generator that is passed in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import torch
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as vision

from trainables.backbones import InputSpec

Interpolation = Literal["bicubic", "bilinear"]
Batch = Tensor | Sequence[Tensor]
"""uint8 images: `(b, c, h, w)` where they have one size, else `(c, h, w)` each."""


def moved(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor from the CPU to a device without waiting for what the device is doing."""
    return tensor if torch.device(device).type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


class Transform(Protocol):
    """Turns a batch of stored images into what the backbone reads."""

    def __call__(self, images: Batch, generator: torch.Generator | None) -> Tensor:
        """Map uint8 `(b, c, h, w)` to float32 `(b, c', h', w')`; only augmentations use `generator`."""
        ...


@dataclass(frozen=True)
class Normalise:
    """Scale to [0, 1], then subtract `mean` and divide by `std`, one value per channel. Uses no randomness."""

    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)

    def __call__(self, images: Batch, generator: torch.Generator | None = None) -> Tensor:
        """See `Transform`."""
        images = _one_size(images)
        mean, std = (_per_channel(part, images.device) for part in (self.mean, self.std))
        return images.float().div_(255).sub_(mean).div_(std)


@lru_cache(maxsize=64)
def _per_channel(values: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device).view(-1, 1, 1)


@dataclass(frozen=True)
class RandomShift:
    """Shift each image by up to `pixels` in both directions, its border repeated, then normalise."""

    pixels: int
    normalise: Normalise = Normalise()

    def __call__(self, images: Batch, generator: torch.Generator | None) -> Tensor:
        """See `Transform`.

        Returns:
            float32 `(b, c, h, w)`.

        Raises:
            ValueError: If `generator` is None; an augmentation never draws from the global random state.
        """
        if generator is None:
            raise ValueError("RandomShift needs a generator, got None")
        images = _one_size(images)
        b, _, h, w = images.shape
        k = self.pixels
        offsets = moved(torch.randint(2 * k + 1, (2, b), generator=generator), images.device)
        # Beyond the border the border itself is read.
        rows = (offsets[0][:, None] + torch.arange(-k, h - k, device=images.device)).clamp_(0, h - 1)  # [b, h]
        columns = (offsets[1][:, None] + torch.arange(-k, w - k, device=images.device)).clamp_(0, w - 1)  # [b, w]
        index = torch.arange(b, device=images.device)
        shifted = images[index[:, None, None], :, rows[:, :, None], columns[:, None, :]]  # [b, h, w, c]
        return self.normalise(shifted.permute(0, 3, 1, 2))


@dataclass(frozen=True)
class RandomResizedCrop:
    """The paper's training transform: a random crop resized to `size` (bicubic), flipped half of the time, normalised.

    The crop has 8 to 100 % of the image's area and an aspect ratio of 3/4 to 4/3: torchvision's defaults and its
    rules, with the randomness taken from the generator. Grey images become RGB where the backbone reads RGB, and the
    reverse.
    """

    size: int
    normalise: Normalise

    def __call__(self, images: Batch, generator: torch.Generator | None) -> Tensor:
        """See `Transform`.

        Returns:
            float32 `(b, c', size, size)`.

        Raises:
            ValueError: If `generator` is None.
        """
        if generator is None:
            raise ValueError("RandomResizedCrop needs a generator, got None")

        def crop(image: Tensor) -> Tensor:
            top, left, height, width = _crop_box(image.shape[1], image.shape[2], generator)
            return vision.resized_crop(
                image, top, left, height, width, [self.size, self.size], InterpolationMode.BICUBIC, antialias=True
            )

        return _cropped_and_flipped(images, crop, self.normalise, generator)


@dataclass(frozen=True)
class ResizeRandomCrop:
    """Resized to `resize` (bicubic), a random `size` x `size` cut out, flipped half of the time, normalised.

    With `keep_ratio` the shorter side gets `resize` pixels; without, both sides do.
    """

    resize: int
    size: int
    normalise: Normalise
    keep_ratio: bool = False

    def __call__(self, images: Batch, generator: torch.Generator | None) -> Tensor:
        """See `Transform`.

        Returns:
            float32 `(b, c', size, size)`.

        Raises:
            ValueError: If `generator` is None.
        """
        if generator is None:
            raise ValueError("ResizeRandomCrop needs a generator, got None")

        def crop(image: Tensor) -> Tensor:
            image = _resized(image, self.resize, self.keep_ratio, "bicubic")
            top = int(torch.randint(image.shape[1] - self.size + 1, (), generator=generator))
            left = int(torch.randint(image.shape[2] - self.size + 1, (), generator=generator))
            return image[:, top : top + self.size, left : left + self.size]

        return _cropped_and_flipped(images, crop, self.normalise, generator)


@dataclass(frozen=True)
class ResizeCenterCrop:
    """The paper's test transform: resized to `resize`, the middle `size` x `size` cut out, normalised.

    With `keep_ratio` the shorter side gets `resize` pixels; without, both sides do.
    """

    resize: int
    size: int
    normalise: Normalise
    keep_ratio: bool = False
    interpolation: Interpolation = "bicubic"

    def __call__(self, images: Batch, generator: torch.Generator | None = None) -> Tensor:
        """See `Transform`."""
        if isinstance(images, Tensor):
            return self.normalise(self._cut(images))
        return self.normalise(torch.stack([self._cut(image) for image in images]))

    def _cut(self, images: Tensor) -> Tensor:
        images = _with_channels(images, self.normalise)
        resized = _resized(images, self.resize, self.keep_ratio, self.interpolation)
        return vision.center_crop(resized, [self.size, self.size])


def small_transforms(reads: InputSpec) -> tuple[Transform, Transform]:
    """Return training and test transform of an embedded 32x32 benchmark for a backbone.

    A backbone that reads such images gets shifts of up to two pixels; a larger one the paper's transforms.
    """
    normalise = Normalise(reads.mean, reads.std)
    if (reads.channels, reads.size) == (1, 32):
        return RandomShift(2, normalise), normalise
    return RandomResizedCrop(reads.size, normalise), ResizeCenterCrop(reads.size * 8 // 7, reads.size, normalise)


def _one_size(images: Batch) -> Tensor:
    if not isinstance(images, Tensor):
        raise ValueError("needs images of one size, got several sizes")
    return images


def _cropped_and_flipped(
    images: Batch, crop: Callable[[Tensor], Tensor], normalise: Normalise, generator: torch.Generator
) -> Tensor:
    """Crop each image, flip half of them, normalise: `(b, c', size, size)`. All flips are drawn before any crop."""
    flips = torch.rand(len(images), generator=generator) < 0.5
    crops = [crop(_with_channels(image, normalise)) for image in images]
    return normalise(torch.stack([each.flip(2) if flip else each for each, flip in zip(crops, flips, strict=True)]))


def _with_channels(images: Tensor, normalise: Normalise) -> Tensor:
    """Return `(..., c, h, w)` with as many channels as are normalised: grey is repeated, RGB weighed to grey."""
    got, wanted = images.shape[-3], len(normalise.mean)
    if got == wanted:
        return images
    if got == 1:
        return images.expand(*images.shape[:-3], wanted, -1, -1)
    return vision.rgb_to_grayscale(images)


def _resized(images: Tensor, to: int, keep_ratio: bool, interpolation: Interpolation) -> Tensor:
    return vision.resize(images, [to] if keep_ratio else [to, to], InterpolationMode(interpolation), antialias=True)


def _crop_box(height: int, width: int, generator: torch.Generator) -> tuple[int, int, int, int]:
    """Draw top, left, height and width of a crop as torchvision's RandomResizedCrop does."""
    for _ in range(10):
        area = height * width * _uniform(0.08, 1.0, generator)
        ratio = math.exp(_uniform(math.log(3 / 4), math.log(4 / 3), generator))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            top = int(torch.randint(height - h + 1, (), generator=generator))
            return top, int(torch.randint(width - w + 1, (), generator=generator)), h, w
    side = min(height, width)
    return (height - side) // 2, (width - side) // 2, side, side


def _uniform(low: float, high: float, generator: torch.Generator) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator))
