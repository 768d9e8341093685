"""Crops of a batch, each with its own box, resized to one size on the images' device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from trainables.device import moved

Interpolation = Literal["bicubic", "bilinear"]
Box = tuple[int, int, int, int]
"""Top, left, height and width, in pixels."""

MOST_VALUES = 2**26  # of images that are resized together; their float32 copy has 256 MiB


class ImageCrop(NamedTuple):
    """A crop of an image: resize `box`, then take the output pixels from `corner` on."""

    box: Box
    resized: tuple[int, int]  # height and width that the box gets, in pixels
    corner: tuple[int, int] = (0, 0)  # row and column of the first of them


def resized_crops(images: Tensor, boxes: Sequence[Box], size: int) -> Tensor:
    """Return the box of each image, cut out and resized to `size` x `size`, bicubic with antialiasing.

    A CPU works image by image, through torchvision. A GPU would wait for the starts of some six kernels per image, and
    computes two matrix products per batch instead. Both resize along rows, round to whole levels and resize along
    columns, as Pillow does. They may differ by one level, because torchvision has 16-bit weights on a CPU.

    From uint8 `(b, c, h, w)` and a box per image to whole numbers from 0 to 255, `(b, c, size, size)`, uint8 or
    float32.
    """
    if images.device.type != "cpu":
        return resized_by_products(images, [ImageCrop(box, (size, size)) for box in boxes], size)
    # Takes two seconds to import; the embedded benchmarks do not need torchvision.
    from torchvision.transforms.v2 import InterpolationMode, functional as vision

    bicubic = InterpolationMode.BICUBIC
    crops = [
        vision.resized_crop(image, *box, [size, size], bicubic, antialias=True)
        for image, box in zip(images, boxes, strict=True)
    ]
    return torch.stack(crops)


def crops_by_products(
    images: Sequence[Tensor], crops: Sequence[ImageCrop], size: int, interpolation: Interpolation = "bicubic"
) -> Tensor:
    """Return a crop of each of several images of any size, float32 `(b, c, size, size)`; see `resized_by_products`.

    `images` are uint8 `(c, h, w)` on a GPU. Those that fit in `MOST_VALUES` are padded to one size, which no crop sees.
    """
    found = []
    for group in _groups(images):
        height, width = (max(image.shape[side] for image in images[group]) for side in (1, 2))
        canvas = images[0].new_zeros(group.stop - group.start, images[0].shape[0], height, width)
        for place, image in zip(canvas, images[group], strict=True):
            place[:, : image.shape[1], : image.shape[2]] = image
        found.append(resized_by_products(canvas, crops[group], size, interpolation))
    return torch.cat(found)


def _groups(images: Sequence[Tensor]) -> Iterator[slice]:
    """Yield slices of images that have at most `MOST_VALUES` together once they are padded to one size, or of one."""
    start, height, width = 0, 0, 0
    for k, image in enumerate(images):
        channels, h, w = image.shape
        height, width = max(height, h), max(width, w)
        if k > start and (k + 1 - start) * channels * height * width > MOST_VALUES:
            yield slice(start, k)
            start, height, width = k, h, w
    yield slice(start, len(images))


def resized_by_products(
    images: Tensor, crops: Sequence[ImageCrop], size: int, interpolation: Interpolation = "bicubic"
) -> Tensor:
    """Return crops of uint8 images `(b, c, h, w)` by matrix products: 0 to 255, whole, float32 `(b, c, size, size)`."""
    numbers = torch.tensor([(*crop.box, *crop.resized, *crop.corner) for crop in crops])
    top, left, height, width, rows_to, columns_to, row, column = moved(numbers, images.device).unbind(1)
    rows = _weights(top, height, rows_to, row, images.shape[2], size, interpolation)  # [b, size, h]
    columns = _weights(left, width, columns_to, column, images.shape[3], size, interpolation)  # [b, size, w]
    along_rows = (images.float() @ columns[:, None].mT).round_().clamp_(0, 255)
    return (rows[:, None] @ along_rows).round_().clamp_(0, 255)


def _weights(
    start: Tensor, length: Tensor, to: Tensor, first: Tensor, total: int, size: int, interpolation: Interpolation
) -> Tensor:
    """Return the weights of `total` input pixels in each of `size` output pixels, `(b, size, total)`.

    The resized crop begins at input pixel `start` and has `length` input pixels and `to` output pixels, of which
    `first` is the first that is asked for; all `(b,)`.
    """
    scale = (length / to)[:, None, None]
    places = first[:, None] + torch.arange(size, device=start.device)
    centres = scale * (places[:, :, None] + 0.5)  # [b, size, 1], from the crop's start
    pixels = torch.arange(total, device=start.device) - start[:, None]  # [b, total]
    inside = (pixels >= 0) & (pixels < length[:, None])
    weights = FILTERS[interpolation]((pixels[:, None] + 0.5 - centres) / scale.clamp(min=1)) * inside[:, None]
    return weights / weights.sum(2, keepdim=True)


def _bicubic(x: Tensor) -> Tensor:
    """Return the weights of Keys' cubic convolution with a = -1/2 at distances `x` in pixels; zero from 2 on.

    Source: Keys 1981, https://doi.org/10.1109/TASSP.1981.1163711. Pillow has this a, and torch with antialiasing.
    """
    x = x.abs()
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


def _bilinear(x: Tensor) -> Tensor:
    """Return 1 - |x|, zero from a distance of 1 pixel on."""
    return (1 - x.abs()).clamp_(min=0)


FILTERS: dict[Interpolation, Callable[[Tensor], Tensor]] = {"bicubic": _bicubic, "bilinear": _bilinear}
