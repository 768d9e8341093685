"""What tests share: a tiny ViT in float64, and random images for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

torch.set_num_threads(1)  # threads of tiny products cost more than they bring, and far more on a busy machine


def make_tiny_vit(seed: int = 0, dtype: torch.dtype = torch.float64, **options: Any) -> VisionTransformer:
    """Two blocks of width 8, 2x2 patches of 8x8 images: small enough for brute force over every example and class."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = VisionTransformer(
            img_size=8,
            patch_size=4,
            in_chans=1,
            embed_dim=8,
            depth=2,
            num_heads=2,
            num_classes=0,
            mlp_ratio=2,
            **options,
        )
        for parameter in model.parameters():  # timm starts biases and norms at constants, which would hide mistakes
            nn.init.normal_(parameter, std=0.4)
    return model.to(dtype).eval()


@pytest.fixture
def tiny_vit() -> VisionTransformer:
    return make_tiny_vit()


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def images(generator: torch.Generator) -> Tensor:
    return torch.randn(12, 1, 8, 8, generator=generator, dtype=torch.float64)
