"""`letters`: 20 Greek and Cyrillic letters, turned by up to 60 degrees, in 10 tasks of 2.

The backbone was pre-trained on other characters that stand upright, so that theta_0 tells these apart worse than those
of `glyphs`, and task vectors have more to do. Training and test images are different random draws, and the test draws
use three faces that training never shows.
"""

from __future__ import annotations

from torch import Tensor

from trainables.data.embedded.sheets import read_sheet
from trainables.data.parts import Part

CLASS_NAMES = tuple("ΦΨΩβγζξςχϠЉЋДЛШЫЮицѢ")  # all of them are classes of `glyphs`, which the backbone has not seen


def load(part: Part) -> tuple[Tensor, Tensor]:
    """Read the images of one part of the benchmark.

    Returns:
        uint8 images `(n, 1, 32, 32)` and int64 labels `(n,)`: 200 images of a class for training, 100 for testing.
    """
    return read_sheet("letters", part, len(CLASS_NAMES))
