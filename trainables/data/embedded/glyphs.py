"""`glyphs`: 100 characters drawn from matplotlib's fonts, in 10 tasks of 10.

Training and test images are different random draws, and the test draws use three faces that training never shows.
"""

from __future__ import annotations

from torch import Tensor

from trainables.data.embedded.characters import BENCHMARK
from trainables.data.embedded.sheets import read_sheet
from trainables.data.parts import Part

CLASS_NAMES = tuple(BENCHMARK)


def load(part: Part) -> tuple[Tensor, Tensor]:
    """Read the images of one part of the benchmark.

    Returns:
        uint8 images `(n, 1, 32, 32)` and int64 labels `(n,)`: 40 images of a class for training, 20 for testing.
    """
    return read_sheet("glyphs", part, len(CLASS_NAMES))
