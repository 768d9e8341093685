"""Make the pictures of the docs: sheets of the two embedded benchmarks, and a finished search as the terminal shows it.

Run `python docs/make_pictures.py RUN_DIRECTORY` with the run directory of a search.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from PIL import Image
from rich.console import Console

from tausearch.files import RunDirectory
from tausearch.report import trials_table
from tausearch.status import status
from trainables.data import digits, glyphs

FOLDER = Path(__file__).parent / "images"


def sheet(load: object, classes: int, rows: int, name: str) -> None:
    """Save a sheet with one column per class, `rows` training images above `rows` test images."""
    parts = []
    for part in ("train", "test"):
        images, labels = load(part)  # type: ignore[operator]
        columns = [images[labels == c][:rows, 0] for c in range(classes)]
        parts.append(torch.cat([column.reshape(-1, 32) for column in columns], dim=1))
        parts.append(torch.full((4, classes * 32), 255, dtype=torch.uint8))
    pixels = torch.cat(parts[:-1])
    Image.fromarray(pixels.numpy()).save(FOLDER / name)


def terminal(directory: RunDirectory) -> None:
    """Save the table of a finished search as the terminal shows it."""
    found = status(directory)
    console = Console(record=True, width=130, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(f"$ tausearch search {found.spec.benchmark} {found.spec.method}", highlight=False)
    console.print(trials_table(found.spec, found.trials, None if found.best is None else found.best.number))
    console.save_svg(str(FOLDER / "search.svg"), title="tausearch")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    sheet(digits.load, 10, 6, "digits.png")
    sheet(lambda part: tuple(x[(glyphs.load(part)[1] < 40)] for x in glyphs.load(part)), 40, 4, "glyphs.png")
    terminal(RunDirectory(Path(sys.argv[1])))
