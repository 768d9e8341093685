"""Random and central crops, shifts and flips. All randomness comes from the generator argument."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainables.data.transforms.normalisation import Images, Normalise, of_one_size, with_channels
from trainables.data.transforms.resampling import Box, ImageCrop, Interpolation, crops_by_products, resized_crops
from trainables.device import moved


@dataclass(frozen=True)
class RandomShift:
    """Shift each image by up to `pixels` in both directions, with its border repeated, then normalise."""

    pixels: int
    normalise: Normalise = Normalise()

    def __call__(self, images: Images, generator: torch.Generator | None) -> Tensor:
        """Return float32 `(b, c, h, w)`; a missing generator is a ValueError; see `Transform`."""
        if generator is None:
            raise ValueError("RandomShift needs a generator, got None")
        images = of_one_size(images)
        k = self.pixels
        corners = torch.randint(2 * k + 1, (2, len(images)), generator=generator).T - k
        return self.normalise(cut(images, moved(corners, images.device), *images.shape[2:]))


@dataclass(frozen=True)
class RandomResizedCrop:
    """The paper's training transform: a random crop resized to `size` (bicubic), flipped half of the time, normalised.

    The crop has 8 to 100 % of the image's area and an aspect ratio of 3/4 to 4/3, by torchvision's defaults and rules.
    Grey images become RGB for a backbone that reads RGB, and the reverse.
    """

    size: int
    normalise: Normalise

    def __call__(self, images: Images, generator: torch.Generator | None) -> Tensor:
        """Return float32 `(b, c', size, size)`; a missing generator is a ValueError; see `Transform`."""

        def crop(part: Tensor, generator: torch.Generator) -> Tensor:
            return resized_crops(part, [_crop_box(part.shape[2], part.shape[3], generator) for _ in part], self.size)

        def crop_each(images: list[Tensor], generator: torch.Generator) -> Tensor:
            boxes = [_crop_box(image.shape[1], image.shape[2], generator) for image in images]
            return crops_by_products(images, [ImageCrop(box, (self.size, self.size)) for box in boxes], self.size)

        return _augmented(images, self.normalise, generator, crop, crop_each)


@dataclass(frozen=True)
class ResizeRandomCrop:
    """Resize to `resize` (bicubic), cut out a random `size` x `size`, flip half of the time, normalise."""

    resize: int  # pixels of the shorter side with `keep_ratio`, else of both sides
    size: int
    normalise: Normalise
    keep_ratio: bool = False

    def __post_init__(self) -> None:
        _require_room(self.resize, self.size)

    def __call__(self, images: Images, generator: torch.Generator | None) -> Tensor:
        """Return float32 `(b, c', size, size)`; a missing generator is a ValueError; see `Transform`."""

        def crop(part: Tensor, generator: torch.Generator) -> Tensor:
            resized = _resized(part, self.resize, self.keep_ratio, "bicubic")
            corners = torch.tensor([self._corner(resized.shape[2:], generator) for _ in part])
            return cut(resized, moved(corners, part.device), self.size, self.size)

        def crop_each(images: list[Tensor], generator: torch.Generator) -> Tensor:
            crops = []
            for image in images:
                whole, resized = _whole(image), _resized_to(image.shape[1:], self.resize, self.keep_ratio)
                crops.append(ImageCrop(whole, resized, self._corner(resized, generator)))
            return crops_by_products(images, crops, self.size)

        return _augmented(images, self.normalise, generator, crop, crop_each)

    def _corner(self, resized: Sequence[int], generator: torch.Generator) -> tuple[int, int]:
        """Draw row and column of the first pixel of the cut in a resized image."""
        row, column = (int(torch.randint(side - self.size + 1, (), generator=generator)) for side in resized)
        return row, column


@dataclass(frozen=True)
class ResizeCenterCrop:
    """The paper's test transform: resize to `resize`, cut out the middle `size` x `size`, normalise."""

    resize: int  # pixels of the shorter side with `keep_ratio`, else of both sides
    size: int
    normalise: Normalise
    keep_ratio: bool = False
    interpolation: Interpolation = "bicubic"

    def __post_init__(self) -> None:
        _require_room(self.resize, self.size)

    def __call__(self, images: Images, generator: torch.Generator | None = None) -> Tensor:
        """Transform a batch of stored images; see `Transform`."""
        if isinstance(images, Tensor):
            return self.normalise(self.cut_out(images))
        if _on_gpu(images):
            images = [with_channels(image, self.normalise) for image in images]
            crops = [self._crop(image) for image in images]
            return self.normalise(crops_by_products(images, crops, self.size, self.interpolation))
        return self.normalise(torch.stack([self.cut_out(image) for image in images]))

    def _crop(self, image: Tensor) -> ImageCrop:
        resized = _resized_to(image.shape[1:], self.resize, self.keep_ratio)
        row, column = (round((side - self.size) / 2) for side in resized)  # as torchvision rounds
        return ImageCrop(_whole(image), resized, (row, column))

    def cut_out(self, images: Tensor) -> Tensor:
        """Return the middle of resized images `(..., c', size, size)`, before they are normalised, by torchvision."""
        from torchvision.transforms.v2 import functional as vision  # takes two seconds to import

        images = with_channels(images, self.normalise)
        resized = _resized(images, self.resize, self.keep_ratio, self.interpolation)
        return vision.center_crop(resized, [self.size, self.size])


def _augmented(
    images: Images,
    normalise: Normalise,
    generator: torch.Generator | None,
    crop: Callable[[Tensor, torch.Generator], Tensor],
    crop_each: Callable[[list[Tensor], torch.Generator], Tensor],
) -> Tensor:
    """Crop images of one size `(b, c', h, w)` together and others alone, flip half of them, normalise."""
    if generator is None:
        raise ValueError("a random crop needs a generator, got None")
    flips = torch.rand(len(images), generator=generator) < 0.5  # before the crops, so that results repeat
    if _on_gpu(images):  # one by one, each image would launch kernels of its own
        crops = crop_each([with_channels(image, normalise) for image in images], generator)
    else:
        parts = [images] if isinstance(images, Tensor) else [image[None] for image in images]
        crops = torch.cat([crop(with_channels(part, normalise), generator) for part in parts])
    return normalise(torch.where(moved(flips, crops.device)[:, None, None, None], crops.flip(3), crops))


def _require_room(resize: int, size: int) -> None:
    if resize < size:
        raise ValueError(f"resize must be at least size, {size}; got {resize}")


def _on_gpu(images: Images) -> bool:
    """Whether images are of several sizes and on a GPU."""
    return not isinstance(images, Tensor) and images[0].device.type != "cpu"


def cut(images: Tensor, corners: Tensor, height: int, width: int) -> Tensor:
    """Return a part `(b, c, height, width)` of images `(b, c, h, w)`, with the border repeated outside.

    `corners` are the row and column of each part's first pixel, int64 `(b, 2)`, on the device of the images.
    """
    b, c, h, w = images.shape
    rows = (corners[:, :1] + torch.arange(height, device=images.device)).clamp_(0, h - 1)  # [b, height]
    columns = (corners[:, 1:] + torch.arange(width, device=images.device)).clamp_(0, w - 1)  # [b, width]
    places = (rows[:, :, None] * w + columns[:, None, :]).flatten(1)  # [b, height * width]
    return images.flatten(2).gather(2, places[:, None].expand(b, c, -1)).view(b, c, height, width)


def _resized(images: Tensor, to: int, keep_ratio: bool, interpolation: Interpolation) -> Tensor:
    # Takes two seconds to import.
    from torchvision.transforms.v2 import InterpolationMode, functional as vision

    return vision.resize(images, [to] if keep_ratio else [to, to], InterpolationMode(interpolation), antialias=True)


def _resized_to(sides: Sequence[int], to: int, keep_ratio: bool) -> tuple[int, int]:
    """Return height and width after `_resized`; the longer side is rounded down, as in torchvision."""
    height, width = sides
    if not keep_ratio:
        return to, to
    return (to, int(to * width / height)) if height <= width else (int(to * height / width), to)


def _whole(image: Tensor) -> Box:
    return 0, 0, image.shape[1], image.shape[2]


def _crop_box(height: int, width: int, generator: torch.Generator) -> Box:
    """Draw a crop by the rule of torchvision's RandomResizedCrop."""
    for _ in range(10):
        area = height * width * _uniform(0.08, 1.0, generator)
        ratio = math.exp(_uniform(math.log(3 / 4), math.log(4 / 3), generator))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            top = int(torch.randint(height - h + 1, (), generator=generator))
            return top, int(torch.randint(width - w + 1, (), generator=generator)), h, w
    w, h = min(width, round(height * (4 / 3))), min(height, round(width / (3 / 4)))
    return (height - h) // 2, (width - w) // 2, h, w


def _uniform(low: float, high: float, generator: torch.Generator) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator))
