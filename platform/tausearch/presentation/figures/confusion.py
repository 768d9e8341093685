"""A confusion matrix as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from tausearch.presentation.figures.style import entitle, new_figure, plain

_MOST_NUMBERS = 20  # classes up to which each cell has its number written in
_MOST_NAMES = 120  # classes up to which each has its name
_AROUND = 2.0  # inches: names and title


def confusion_figure(names: Sequence[str], counts: Sequence[Sequence[int]], title: str) -> Figure:
    """Return a picture of how many images of each true class (lines of `counts`) are predicted as each (columns).

    Right is blue, wrong is orange, darker for a larger share of the true class's images. There is at least one class.
    """
    numbers = len(names) <= _MOST_NUMBERS
    cell = 0.42 if numbers else 0.14
    side = _AROUND + cell * min(len(names), _MOST_NAMES)
    figure = new_figure((max(4.2, side), max(3.6, side)), layout="constrained")
    axes = figure.subplots()
    table = np.array(counts, dtype=float)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    right, some = np.eye(len(names), dtype=bool)[..., None], (table > 0)[..., None]
    blue, orange = (matplotlib.colormaps[name](0.15 + 0.7 * shares) for name in ("Blues", "Oranges"))
    axes.imshow(np.where(some, np.where(right, blue, orange), 1.0))
    if numbers:
        for y, line in enumerate(counts):
            for x, count in enumerate(line):
                if count:
                    ink = "white" if shares[y, x] > 0.6 else "black"
                    axes.text(x, y, str(count), ha="center", va="center", color=ink, fontsize=8)
    every = math.ceil(len(names) / _MOST_NAMES)
    places, shown = range(0, len(names), every), [plain(name) for name in names[::every]]
    size = 8 if numbers else 6
    axes.set_xticks(places, shown, rotation=90, fontsize=size)
    axes.set_yticks(places, shown, fontsize=size)
    axes.set(xlabel="predicted class", ylabel="true class")
    entitle(figure, title)
    return figure
