"""A ViT that is small enough for brute force, and the precision in which brute force is exact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn


@contextmanager
def float64() -> Iterator[None]:
    """Make float64 torch's default type inside the `with` block."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def make_tiny_vit(
    seed: int = 0, dtype: torch.dtype = torch.float64, *, width: int = 8, depth: int = 2, **options: Any
) -> VisionTransformer:
    """Two blocks of width 8, 2x2 patches of 8x8 images: small enough for brute force over every example and class."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = VisionTransformer(
            img_size=8,
            patch_size=4,
            in_chans=1,
            embed_dim=width,
            depth=depth,
            num_heads=2,
            num_classes=0,
            mlp_ratio=2,
            **options,
        )
        for parameter in model.parameters():  # timm starts biases and norms at constants, which would hide mistakes
            nn.init.normal_(parameter, std=0.4)
    return model.to(dtype).eval()
