"""A folder of images as somebody's own: colour on colour, of several sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from trainables.data.embedded.drawing import TRAIN_FACES, draw, render

LETTERS = "ABCDEF"


def draw_letters(root: Path) -> Path:
    """Draw six letters, 12 images of each to train on and 8 to test."""
    labels = torch.arange(len(LETTERS)).repeat_interleave(20)
    drawn = draw(render(LETTERS, TRAIN_FACES), labels, torch.Generator().manual_seed(3))[:, 0].numpy()
    for number, (grey, label) in enumerate(zip(drawn, labels.tolist(), strict=True)):
        folder = root / ("train" if number % 20 < 12 else "test") / LETTERS[label]
        folder.mkdir(parents=True, exist_ok=True)
        tinted = np.stack([grey, grey // 2 + 60, 255 - grey], axis=2)
        size = (40 + 3 * (number % 5), 44 + 2 * (number % 3))
        Image.fromarray(tinted).resize(size).save(folder / f"{number:03d}.png")
    return root
