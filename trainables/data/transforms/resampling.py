"""Crops of a batch, each with its own box, resized to one size on the images' device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainables.device import moved

Box = tuple[int, int, int, int]
"""Top, left, height and width, in pixels."""

SUPPORT = 2.0  # half the width of the bicubic filter, in pixels of the coarser of the two grids


def resized_crops(images: Tensor, boxes: Sequence[Box], size: int) -> Tensor:
    """Return the box of each image, cut out and resized to `size` x `size`, bicubic with antialiasing.

    A CPU works image by image, through torchvision. A GPU would wait for the starts of some six kernels per image, and
    computes two matrix products per batch instead. Both resize along rows, round to whole levels and resize along
    columns, as Pillow does. They may differ by one level, because torchvision has 16-bit weights on a CPU.

    From uint8 `(b, c, h, w)` and a box per image to whole numbers from 0 to 255, `(b, c, size, size)`, uint8 or
    float32.
    """
    if images.device.type != "cpu":
        return resized_by_products(images, torch.tensor(boxes), size)
    # Takes two seconds to import; the embedded benchmarks do not need torchvision.
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as vision

    bicubic = InterpolationMode.BICUBIC
    crops = [
        vision.resized_crop(image, *box, [size, size], bicubic, antialias=True)
        for image, box in zip(images, boxes, strict=True)
    ]
    return torch.stack(crops)


def resized_by_products(images: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Return the crops of `resized_crops` by two matrix products, float32 `(b, c, size, size)`.

    `images` are uint8 `(b, c, h, w)`, `boxes` int64 `(b, 4)` on the CPU.
    """
    top, left, height, width = moved(boxes, images.device).unbind(1)
    rows = _weights(top, height, images.shape[2], size)  # [b, size, h]
    columns = _weights(left, width, images.shape[3], size)  # [b, size, w]
    along_rows = (images.float() @ columns[:, None].mT).round_().clamp_(0, 255)
    return (rows[:, None] @ along_rows).round_().clamp_(0, 255)


def _weights(start: Tensor, length: Tensor, total: int, size: int) -> Tensor:
    """Return the weights of `total` input pixels in each of `size` output pixels, `(b, size, total)`.

    The resized part begins at input pixel `start`, `(b,)`, and has `length` input pixels, `(b,)`.
    """
    scale = (length / size)[:, None, None]
    centres = scale * (torch.arange(size, device=start.device) + 0.5)[:, None]  # [b, size, 1], from the part's start
    pixels = torch.arange(total, device=start.device) - start[:, None]  # [b, total]
    inside = (pixels >= 0) & (pixels < length[:, None])
    weights = _bicubic((pixels[:, None] + 0.5 - centres) / scale.clamp(min=1)) * inside[:, None]
    return weights / weights.sum(2, keepdim=True)


def _bicubic(x: Tensor) -> Tensor:
    """Return the weights of Keys' cubic convolution with a = -1/2 at distances `x` in pixels; zero beyond `SUPPORT`.

    Source: Keys 1981, https://doi.org/10.1109/TASSP.1981.1163711. Pillow has this a, and torch with antialiasing.
    """
    x = x.abs()
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < SUPPORT, far, 0.0))
