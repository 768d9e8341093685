"""Crops of a batch, each with a box of its own, resized to one size on the images' device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainables.data.moving import moved

Box = tuple[int, int, int, int]
"""Top, left, height and width, in pixels."""

SUPPORT = 2.0  # half the width of the bicubic filter, in pixels of the coarser of the two grids


def resized_crops(images: Tensor, boxes: Sequence[Box], size: int) -> Tensor:
    """Cut a box out of every image and resize it to `size` x `size`, bicubic with antialiasing.

    On a CPU image by image, through torchvision. A GPU, which would wait for the starts of some six kernels per image,
    does a batch in two matrix products. Both resize along rows, round to whole levels, and resize along columns, as
    Pillow does; a value may lie a level apart, because the former works with 16-bit weights.

    Args:
        images: The images, uint8 `(b, c, h, w)`.
        boxes: The boxes, one per image.
        size: Number of pixels of each side of the result.

    Returns:
        The resized crops, `(b, c, size, size)`: whole numbers from 0 to 255, uint8 or float32.
    """
    if images.device.type != "cpu":
        return resized_by_products(images, torch.tensor(boxes), size)
    # Takes two seconds to import, with the part of torch that it asks for; the embedded benchmarks need none of it.
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as vision

    bicubic = InterpolationMode.BICUBIC
    crops = [
        vision.resized_crop(image, *box, [size, size], bicubic, antialias=True)
        for image, box in zip(images, boxes, strict=True)
    ]
    return torch.stack(crops)


def resized_by_products(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Do what `resized_crops` does, for a whole batch in two matrix products.

    Args:
        images: The images, uint8 `(b, c, h, w)`.
        boxes: The boxes, one per image, int64 `(b, 4)`, on the CPU.
        size: Number of pixels of each side of the result.

    Returns:
        The resized crops, float32 `(b, c, size, size)`.
    """
    top, left, height, width = moved(boxes, images.device).unbind(1)
    rows = _weights(top, height, images.shape[2], size)  # [b, size, h]
    columns = _weights(left, width, images.shape[3], size)  # [b, size, w]
    along_rows = (images.float() @ columns[:, None].mT).round_().clamp_(0, 255)
    return (rows[:, None] @ along_rows).round_().clamp_(0, 255)


def _weights(start: Tensor, length: Tensor, total: int, size: int) -> Tensor:
    """Return what each of `size` output pixels takes of each of `total` input pixels, `(b, size, total)`.

    Args:
        start: First input pixel of the part that is resized, `(b,)`.
        length: Number of input pixels of that part, `(b,)`.
        total: Number of input pixels along the side.
        size: Number of pixels that the part is resized to.
    """
    scale = (length / size)[:, None, None]
    centres = scale * (torch.arange(size, device=start.device) + 0.5)[:, None]  # [b, size, 1], from the part's start
    pixels = torch.arange(total, device=start.device) - start[:, None]  # [b, total]
    inside = (pixels >= 0) & (pixels < length[:, None])
    weights = _bicubic((pixels[:, None] + 0.5 - centres) / scale.clamp(min=1)) * inside[:, None]
    return weights / weights.sum(2, keepdim=True)


def _bicubic(x: Tensor) -> Tensor:
    """Keys' cubic convolution with a = -1/2, zero beyond `SUPPORT`.

    Args:
        x: Distances in pixels, in any shape.

    Returns:
        The weights, in the shape of the distances.

    Source: Keys 1981, https://doi.org/10.1109/TASSP.1981.1163711; the a is Pillow's, and torch's with antialiasing.
    """
    x = x.abs()
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < SUPPORT, far, 0.0))
