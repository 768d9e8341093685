"""One look for every picture: how a figure is made, and how it is saved."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from checked_input.text_files import printable
from checked_input.whole_files import replacing
from tausearch.presentation.figures.fonts import choose_fonts
from tausearch.runs import PICTURE_MARK, RunSpec, shown_benchmark

_MARK = 6  # letters that the mark of a name takes in a legend
_MARK_FIELDS = {".png": "Comment", ".pdf": "Creator", ".svg": "Creator"}  # of their metadata
DPI = 150
WIDE = (7.0, 4.2)  # inches of a figure with one pair of axes
TITLE_LETTERS = 13  # letters of a title that fit into an inch; matplotlib's own wrapping leaves no room for its lines


def new_figure(inches: tuple[float, float], **options: Any) -> Figure:
    """Return an empty figure of that width and height; without pyplot, whose state threads would share."""
    return Figure(figsize=inches, dpi=DPI, **options)


def one_pair_of_axes(inches: tuple[float, float] = WIDE) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes, laid out so that nothing overlaps."""
    figure = new_figure(inches, layout="constrained")
    return figure, figure.subplots()


def run_caption(spec: RunSpec) -> str:
    """Say of which run a figure is: method, benchmark without the path of its data, name, split."""
    return f"{spec.method} on {shown_benchmark(spec.benchmark)}, {spec.name} ({spec.metrics.prefix} split)"


def plain(text: str) -> str:
    """Return a name as matplotlib draws it letter by letter: no formula between dollars, no letter that no font has."""
    drawn = printable(text).encode("utf-8", "replace").decode("utf-8")  # a file's name may be no text at all
    return drawn.replace("$", r"\$")


def entitle(figure: Figure, text: str) -> None:
    """Write a title above a whole figure, in lines that fit its width."""
    fits = int(TITLE_LETTERS * figure.get_figwidth())
    lines = [part for line in text.split("\n") for part in textwrap.wrap(line, fits) or [""]]
    figure.suptitle(plain("\n".join(lines)), fontsize=9, color="0.35", wrap=True)


def legend_layout(names: Sequence[str], inches: float, most: int) -> tuple[int, int]:
    """Return how many names of a legend fit in a line, at most `most`, and after how many letters a name wraps."""
    letters = int(inches * TITLE_LETTERS)
    longest = max(map(len, names), default=0)
    return max(1, min(most, letters // (longest + _MARK))), letters - _MARK


def make_logarithmic(axes: Axes, which: Literal["x", "y"]) -> None:
    """Make an axis of drawn values logarithmic, with numbers that have room, at least two if it fits more than one."""
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_minor_formatter(NullFormatter())
    first, last = axis.get_view_interval()
    decades = np.log10(last / first)
    if decades >= 3:
        return  # matplotlib's own powers of ten do
    subs = (1, 2, 5) if decades < 1 else (1, 3)
    few = decades < 0.7  # there may be no power of ten, nor its double or half, among so few
    axis.set_major_locator(MaxNLocator(3) if few else LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def write_picture(figure: Figure, path: Path, **metadata: None) -> None:
    """Write a figure with the mark by which `runs.guards.require_replaceable` knows it; None drops a field."""
    how: dict[str, Any] = {}
    if path.suffix == ".jpg":  # has no fields, but a comment
        how["pil_kwargs"] = {"comment": PICTURE_MARK.encode()}
    elif field := _MARK_FIELDS.get(path.suffix):
        how["metadata"] = {field: PICTURE_MARK, **metadata}
    place = Path(os.path.realpath(path))  # a link of the user stays
    with replacing(place) as file:  # a PDF that was cut short would lack the mark, and be refused
        figure.savefig(file, format=path.suffix.removeprefix("."), **how)


def save(figure: Figure, path: Path) -> Path:
    """Write a figure; the kind is the file's ending (png, pdf, svg). Beside a PNG lies the same as PDF, for papers.

    Returns:
        The path of the file that was written.

    Raises:
        OSError: If the file cannot be written.
        ValueError: If matplotlib knows no kind of picture with that file ending.
    """
    choose_fonts(figure)
    engine = figure.get_layout_engine()
    if engine is not None and figure.axes:  # else each drawing works out the places, which takes as long as drawing
        engine.execute(figure)
        figure.set_layout_engine(None)
    write_picture(figure, path)
    if path.suffix == ".png":
        write_picture(figure, path.with_suffix(".pdf"), CreationDate=None)  # the same figure, the same file
    return path


def save_all(figures: Mapping[str, Figure], folder: Path) -> list[Path]:
    """Return the PNG of each figure, by name, in a folder, which is made; an OSError leaves none, also of before."""
    paths = [folder / f"{name}.png" for name in figures]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return [save(figure, path) for figure, path in zip(figures.values(), paths, strict=True)]
    except OSError:
        for path in paths:
            path.unlink(missing_ok=True)
            path.with_suffix(".pdf").unlink(missing_ok=True)
        with suppress(OSError):  # `figures` writes into the folder, too
            folder.rmdir()
        raise
