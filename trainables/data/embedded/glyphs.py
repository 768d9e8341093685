"""`glyphs`: 100 characters drawn from matplotlib's fonts, in 10 tasks of 10.

The test images have three faces that no training image has.
"""

from __future__ import annotations

from torch import Tensor

from trainables.data.embedded.characters import BENCHMARK
from trainables.data.embedded.sheets import read_sheet
from trainables.data.splits import Part

CLASS_NAMES = tuple(BENCHMARK)


def load(part: Part) -> tuple[Tensor, Tensor]:
    """Return images and labels as of `read_sheet`: 40 images of each class for training, 20 for testing."""
    return read_sheet("glyphs", part, len(CLASS_NAMES))
