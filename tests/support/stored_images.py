"""Images as tensors hold them and as whatever reads them from disk gives them."""

from __future__ import annotations

from collections.abc import Iterable

import torch


def images_of(items: Iterable[object]) -> list[bytes]:
    """All images that tensors hold, or that anything which reads images can read."""
    read = []
    for item in items:
        if isinstance(item, torch.Tensor) and item.dim() == 4:
            read += [image.contiguous().numpy().tobytes() for image in item]
        elif not isinstance(item, torch.Tensor) and hasattr(item, "encoded") and hasattr(item, "image"):
            read += [item.image(row).contiguous().numpy().tobytes() for row in range(len(item))]  # type: ignore[arg-type]
    return read
