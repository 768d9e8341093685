"""Draw the images of `glyphs` and `letters` again, to compare them with the shipped files.

Run `python -m trainables.data.embedded.make_images FOLDER`. This script wrote the shipped files, with torch 2.15 and
Pillow's FreeType. Other versions of FreeType may draw other outlines.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from trainables.data.embedded.characters import BENCHMARK, LETTERS
from trainables.data.embedded.drawing import HELD_OUT_FACES, TRAIN_FACES, draw, render
from trainables.data.embedded.sheets import write_sheet
from trainables.data.splits import SPLIT_NAMES, SplitName
from trainables.randomness import make_generator

FACES = {"train": TRAIN_FACES, "test": HELD_OUT_FACES}
_SEED = 0  # fixed: the images are part of the benchmark


@dataclass(frozen=True)
class Drawing:
    """The characters, numbers and rotation of a benchmark's images."""

    characters: str  # each a class
    per_class: dict[SplitName, int]  # images
    turn: float  # largest rotation in either direction, radians


DRAWINGS = {
    "glyphs": Drawing(BENCHMARK, {"train": 40, "test": 20}, math.pi / 15),
    # A tenth of the training images validates in a search: 400.
    "letters": Drawing(LETTERS, {"train": 200, "test": 100}, math.pi / 3),
}


def draw_part(benchmark: str, part: SplitName) -> Tensor:
    """Return one part of a benchmark, class after class, uint8 `(n, 1, 32, 32)`."""
    drawing = DRAWINGS[benchmark]
    labels = torch.arange(len(drawing.characters)).repeat_interleave(drawing.per_class[part])
    rendered = render(drawing.characters, FACES[part])
    return draw(rendered, labels, make_generator(_SEED, benchmark, part), drawing.turn)


def main() -> None:
    """Draw the images into the folder on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="an existing folder for the four PNG files")
    folder = parser.parse_args().folder
    for benchmark, drawing in DRAWINGS.items():
        for part in SPLIT_NAMES:
            write_sheet(benchmark, part, draw_part(benchmark, part), len(drawing.characters), folder)


if __name__ == "__main__":
    main()
