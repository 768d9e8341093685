"""`letters`: 20 Greek and Cyrillic letters, turned by up to 60 degrees, in 10 tasks of 2.

The backbone was pre-trained on other characters that stand upright, so that theta_0 tells these apart worse than those
of `glyphs`, and task vectors have more to do. Training and test images are different random draws, and the test draws
use three faces that training never shows.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trainables.data.embedded.drawing import HELD_OUT_FACES, TRAIN_FACES, draw, render
from trainables.data.parts import Part
from trainables.randomness import make_generator

CLASS_NAMES = tuple("ΦΨΩβγζξςχϠЉЋДЛШЫЮицѢ")  # all of them are classes of `glyphs`, which the backbone has not seen
PER_CLASS = {"train": 200, "test": 100}  # a tenth of the first validates in a search: 400 images
TURN = math.pi / 3
_SEED = 0  # fixed: the images are part of the benchmark


def load(part: Part) -> tuple[Tensor, Tensor]:
    """Draw the images of one part of the benchmark.

    Returns:
        uint8 images `(n, 1, 32, 32)` and int64 labels `(n,)`: 200 images of a class for training, 100 for testing.
    """
    faces = TRAIN_FACES if part == "train" else HELD_OUT_FACES
    labels = torch.arange(len(CLASS_NAMES)).repeat_interleave(PER_CLASS[part])
    return draw(render("".join(CLASS_NAMES), faces), labels, make_generator(_SEED, "letters", part), TURN), labels
