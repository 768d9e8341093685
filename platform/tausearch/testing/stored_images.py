"""The images in tensors, and those of objects that read images from disk."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch


def images_of(items: Iterable[object]) -> list[bytes]:
    """Return all images that tensors or arrays hold, or that anything which reads images can read: `(c, h, w)` each."""
    read = []
    for item in list(items):
        if isinstance(item, torch.Tensor) and item.dim() == 4:
            read += [image.contiguous().numpy().tobytes() for image in item.detach()]
        elif isinstance(item, np.ndarray) and item.dtype == np.uint8 and item.ndim in (3, 4):
            read += [image.transpose(2, 0, 1).tobytes() for image in item.reshape(-1, *item.shape[-3:])]
        elif not isinstance(item, torch.Tensor) and hasattr(item, "encoded") and hasattr(item, "image"):
            read += [item.image(row).contiguous().numpy().tobytes() for row in range(len(item))]  # type: ignore[arg-type]
    return read
