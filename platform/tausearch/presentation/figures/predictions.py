"""A picture of the most and the least confident predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine
from torch import Tensor

from tausearch.presentation.figures.style import new_figure, plain, save

# Name, class, probability, what reads the image, and the true class where it is known.
Shown = tuple[str, str, float, Callable[[], Tensor], str | None]
_COLUMNS = 6
_ROOM, _BESIDE = 0.1, 0.06  # inches around an image: titles of two lines keep clear of what is above
_CELL = (1.5, 2.15)  # inches: an image, and above and below it room for three lines


def draw_predictions(shown: Sequence[Shown], path: Path) -> Path:
    """Return the file with the images of the highest and of the lowest probability, six of each at most, none twice.

    There is at least one. What is wrong is red, with the true class. Beside a PNG lies the same as PDF.
    """
    ranked = sorted(shown, key=lambda each: -each[2])
    first = ranked[: max(1, min(_COLUMNS, -(-len(ranked) // 2)))]
    last = ranked[len(first) :][-_COLUMNS:][::-1]
    rows = [(title, part) for title, part in (("surest", first), ("least sure", last)) if part]
    columns = max(len(part) for _, part in rows)
    layout = ConstrainedLayoutEngine(h_pad=_ROOM, w_pad=_BESIDE)
    figure = new_figure((_CELL[0] * columns + 0.4, _CELL[1] * len(rows)), layout=layout)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for cells, (title, part) in zip(grid, rows, strict=True):
        for axes in cells:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        cells[0].set_ylabel(title)
        for axes, each in zip(cells, part, strict=False):
            _draw(axes, *each)
    return save(figure, path)


def _draw(axes: Axes, name: str, label: str, probability: float, read: Callable[[], Tensor], true: str | None) -> None:
    image = read()
    axes.imshow(image.permute(1, 2, 0).squeeze(-1).numpy(), cmap="gray", vmin=0, vmax=255)
    wrong = true is not None and true != label
    title = f"{_short(label)} {probability:.2f}" + (f"\n(is {_short(true or '')})" if wrong else "")
    axes.set_title(title, fontsize=9, color="tab:red" if wrong else "black")
    axes.set_xlabel(_ending(Path(name)), fontsize=7)


def _ending(path: Path, letters: int = 24) -> str:
    """Return the folder and the name of a file: folders of classes often have files of the same names."""
    text = f"{path.parent.name}/{path.name}" if path.parent.name else path.name
    return plain(text if len(text) <= letters else f"…{text[1 - letters :]}")


def _short(text: str, letters: int = 20) -> str:
    return plain(text if len(text) <= letters else f"{text[: letters - 1]}…")
