"""The problem of product and reference: three uneven tasks and a ViT of two blocks and width 16, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from tests.support.tiny_vit import make_tiny_vit
from trainables.backbones import EMBEDDED, Backbone, glyph_vit
from trainables.data import Benchmark, build_benchmark
from trainables.data.benchmark import BenchmarkSource
from trainables.data.transforms.cropping import RandomShift
from trainables.data.transforms.normalisation import Images, Normalise, Transform

TRAINING = (27, 24, 21, 20, 17, 13, 16)  # images of each class: tasks of 3, 2 and 2 classes, of 72, 37 and 29 images
EVALUATION = (9, 11, 8, 10, 7, 12, 6)
EPOCHS, BATCH_SIZE = 3, 16  # 5, 3 and 2 steps an epoch; the last batch of each is smaller
SEED = 5
WIDTH = 16


@dataclass(frozen=True)
class InFloat64:
    """The float32 results of a product's transform, as float64 for both sides."""

    transform: Transform

    def __call__(self, images: Images, generator: torch.Generator | None) -> Tensor:
        return self.transform(images, generator).double()


def _images(part: str) -> tuple[Tensor, Tensor]:
    """A prototype per class under noise: classes that the network tells apart, but not perfectly."""
    generator = torch.Generator().manual_seed(3 if part == "train" else 4)
    prototypes = torch.rand(7, 1, 8, 8, generator=torch.Generator().manual_seed(2))
    labels = torch.arange(7).repeat_interleave(torch.tensor(TRAINING if part == "train" else EVALUATION))
    labels = labels[torch.randperm(len(labels), generator=generator)]
    noise = torch.rand(len(labels), 1, 8, 8, generator=generator)
    return (255 * (0.75 * prototypes[labels] + 0.25 * noise)).to(torch.uint8), labels


SOURCE = BenchmarkSource(
    name="uneven",
    class_names=tuple("0123456"),
    num_tasks=3,
    epochs=EPOCHS,
    batch_size=BATCH_SIZE,
    backbone=EMBEDDED,
    load=_images,
    transforms=lambda reads: (InFloat64(RandomShift(1)), InFloat64(Normalise())),
)


def make_theta_0() -> VisionTransformer:
    """A plain timm ViT whose features depend on the image: norms about 1, where the tiny ViT's are about 0."""
    model = make_tiny_vit(width=WIDTH)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name and name.endswith("weight"):
                parameter += 1
    return model


def make_benchmark() -> Benchmark:
    return build_benchmark(SOURCE, "final")


def make_backbone(folder: Path, patch: pytest.MonkeyPatch) -> Backbone:
    """The product's own way to load a network, cut to a size at which brute force is quick."""
    file = folder / "theta_0.safetensors"
    save_file(make_theta_0().state_dict(), file)
    patch.setattr(glyph_vit, "build", lambda: make_tiny_vit(seed=1, width=WIDTH))  # whose weights the file replaces
    return Backbone(weights=file)
