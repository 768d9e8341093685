"""Make the pictures of the docs: sheets of the embedded benchmarks, and a finished search as the terminal shows it.

Run `python docs/make_pictures.py RUN_DIRECTORY` with the run directory of a search.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image
from rich.console import Console

from tausearch.presentation import terminal_table, trials_table
from tausearch.runs import RunDirectory, read_status
from trainables.data.embedded import digits, glyphs, letters

FOLDER = Path(__file__).parent / "images"


def sheet(load: object, classes: int, rows: int, name: str) -> None:
    """Save a sheet with one column per class, `rows` training images above `rows` test images."""
    parts = []
    for part in ("train", "test"):
        images, labels = load(part)  # type: ignore[operator]
        framed = F.pad(images, (2, 2, 2, 2), value=128)[:, 0]
        parts.append(torch.cat([framed[labels == c][:rows].reshape(-1, 36) for c in range(classes)], dim=1))
        parts.append(torch.full((6, classes * 36), 255, dtype=torch.uint8))
    pixels = torch.cat(parts[:-1])
    Image.fromarray(pixels.numpy()).save(FOLDER / name)


def terminal(directory: RunDirectory) -> None:
    """Save the table of a finished search as the terminal shows it."""
    found = read_status(directory)
    console = Console(record=True, width=130, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(f"$ tausearch search {found.spec.benchmark} {found.spec.method}", highlight=False)
    best = None if found.best is None else found.best.number
    console.print(terminal_table(trials_table(found.spec, found.trials, best).without("error")))
    console.save_svg(str(FOLDER / "search.svg"), title="tausearch")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    sheet(digits.load, 10, 6, "digits.png")
    sheet(glyphs.load, 30, 4, "glyphs.png")
    sheet(letters.load, 20, 5, "letters.png")
    terminal(RunDirectory(Path(sys.argv[1])))
