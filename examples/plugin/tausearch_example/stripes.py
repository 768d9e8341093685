"""A benchmark: eight directions of noisy stripes, in four tasks."""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.data import BenchmarkSource, small_transforms

IMAGES = {"train": 40, "test": 20}  # of each class


def load(part: str) -> tuple[Tensor, Tensor]:
    """Draw one part: uint8 images `(n, 1, 32, 32)` and int64 labels `(n,)`, and nothing of the other part."""
    generator = torch.Generator().manual_seed(IMAGES[part])
    labels = torch.arange(8).repeat_interleave(IMAGES[part])
    angle = (labels * torch.pi / 8).view(-1, 1, 1)
    rows, columns = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    phase = 6.3 * torch.rand(len(labels), 1, 1, generator=generator)
    stripes = torch.sin(0.6 * (rows * angle.sin() + columns * angle.cos()) + phase)
    noisy = 128 + 80 * stripes + 20 * torch.randn(stripes.shape, generator=generator)
    return noisy.clamp(0, 255).to(torch.uint8).unsqueeze(1), labels


STRIPES = BenchmarkSource(
    name="stripes",
    class_names=tuple(f"{number * 22.5:g} degrees" for number in range(8)),
    num_tasks=4,
    epochs=5,
    batch_size=32,
    backbone="glyph_vit",
    load=load,
    transforms=small_transforms,
)
