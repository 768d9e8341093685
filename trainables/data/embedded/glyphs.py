"""`glyphs`: 100 characters drawn from matplotlib's fonts, in 10 tasks of 10.

Training and test images are different random draws, and the test draws use three faces that training never shows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainables.data.embedded.characters import BENCHMARK
from trainables.data.embedded.drawing import HELD_OUT_FACES, TRAIN_FACES, draw, render
from trainables.data.parts import Part
from trainables.randomness import make_generator

CLASS_NAMES = tuple(BENCHMARK)
PER_CLASS = {"train": 40, "test": 20}
_SEED = 0  # fixed: the images are part of the benchmark


def load(part: Part) -> tuple[Tensor, Tensor]:
    """Draw the images of one part of the benchmark.

    Returns:
        uint8 images `(n, 1, 32, 32)` and int64 labels `(n,)`: 40 images of a class for training, 20 for testing.
    """
    faces = TRAIN_FACES if part == "train" else HELD_OUT_FACES
    labels = torch.arange(len(BENCHMARK)).repeat_interleave(PER_CLASS[part])
    return draw(render(BENCHMARK, faces), labels, make_generator(_SEED, "glyphs", part)), labels
