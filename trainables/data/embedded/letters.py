"""`letters`: 20 Greek and Cyrillic letters, turned by up to 60 degrees, in 10 tasks of 2.

The backbone was pre-trained on other, upright characters. So theta_0 tells these letters apart worse than `glyphs`, and
task vectors have more to do. The test images have three faces that no training image has.
"""

from __future__ import annotations

from torch import Tensor

from trainables.data.embedded.sheets import read_sheet
from trainables.data.splits import Part

CLASS_NAMES = tuple("ΦΨΩβγζξςχϠЉЋДЛШЫЮицѢ")  # classes of `glyphs`, so the backbone has not seen them


def load(part: Part) -> tuple[Tensor, Tensor]:
    """Return images and labels as of `read_sheet`: 200 images of each class for training, 100 for testing."""
    return read_sheet("letters", part, len(CLASS_NAMES))
