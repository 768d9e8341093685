"""The shipped images of the drawn benchmarks: a PNG for each part, with a row of images for each class.

Files give every user the same bytes; drawing depends on the processor, on torch and on FreeType. `make_images` drew
them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from trainables.data.splits import SplitName

IMAGE_SIZE = 32
FOLDER = Path(__file__).with_name("images")


def read_sheet(benchmark: str, num_classes: int, part: SplitName) -> tuple[Tensor, Tensor]:
    """Return one part of a drawn benchmark, class after class: uint8 `(n, 1, 32, 32)` and int64 labels `(n,)`."""
    with Image.open(FOLDER / f"{benchmark}-{part}.png") as sheet:
        rows = torch.from_numpy(np.array(sheet)).view(num_classes, IMAGE_SIZE, -1, IMAGE_SIZE)
    images = rows.transpose(1, 2).reshape(-1, 1, IMAGE_SIZE, IMAGE_SIZE)
    return images, torch.arange(num_classes).repeat_interleave(len(images) // num_classes)


def write_sheet(benchmark: str, part: SplitName, images: Tensor, num_classes: int, folder: Path) -> None:
    """Write the file that `read_sheet` reads into any folder."""
    rows = images.view(num_classes, -1, IMAGE_SIZE, IMAGE_SIZE).transpose(1, 2)
    Image.fromarray(rows.reshape(num_classes * IMAGE_SIZE, -1).numpy()).save(
        folder / f"{benchmark}-{part}.png", optimize=True
    )
