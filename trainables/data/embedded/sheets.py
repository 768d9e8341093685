"""The images of the drawn benchmarks, as they ship: a PNG for each part, in it a row of images for each class.

They are files so that everyone has the same bytes: drawing depends on the processor, on torch and on FreeType, reading
a PNG on nothing. `make_images` drew them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from trainables.data.parts import Part

IMAGE_SIZE = 32
FOLDER = Path(__file__).with_name("images")


def read_sheet(benchmark: str, part: Part, num_classes: int) -> tuple[Tensor, Tensor]:
    """Read one part of a drawn benchmark.

    Returns:
        uint8 images `(n, 1, 32, 32)`, class after class, and their int64 labels `(n,)`.
    """
    with Image.open(FOLDER / f"{benchmark}-{part}.png") as sheet:
        rows = torch.from_numpy(np.array(sheet)).view(num_classes, IMAGE_SIZE, -1, IMAGE_SIZE)
    images = rows.transpose(1, 2).reshape(-1, 1, IMAGE_SIZE, IMAGE_SIZE)
    return images, torch.arange(num_classes).repeat_interleave(len(images) // num_classes)


def write_sheet(benchmark: str, part: Part, images: Tensor, num_classes: int, folder: Path) -> None:
    """Write what `read_sheet` reads, to a folder that need not be the package's."""
    rows = images.view(num_classes, -1, IMAGE_SIZE, IMAGE_SIZE).transpose(1, 2)
    Image.fromarray(rows.reshape(num_classes * IMAGE_SIZE, -1).numpy()).save(
        folder / f"{benchmark}-{part}.png", optimize=True
    )
