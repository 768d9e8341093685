"""A benchmark of your own in a dozen lines: eight directions of noisy stripes, in four tasks.

From the folder that holds this file:

    tausearch search own_benchmark:STRIPES ita-lora --trials 2
"""

import torch

from trainables.data import BenchmarkSource, small_transforms


def load(part):
    """Draw one part: uint8 images `(n, 1, 32, 32)` and int64 labels `(n,)`, and nothing of the other part."""
    generator = torch.Generator().manual_seed({"train": 0, "test": 1}[part])
    labels = torch.arange(8).repeat_interleave({"train": 40, "test": 20}[part])
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
