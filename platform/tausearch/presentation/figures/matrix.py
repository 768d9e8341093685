"""The accuracy matrix of a trial as a picture: which tasks it still knows after each task."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tausearch.presentation.figures.style import TITLE_LETTERS, new_figure, plain
from tausearch.presentation.run_tables import accuracy_cells
from trainables.metrics import MetricNames
from trainables.task_names import titles

_LEFT, _RIGHT, _BELOW, _ABOVE = 0.65, 0.2, 0.5, 0.2  # inches around the cells
_LINE = 0.16  # inches of a line of the title
_BAR = 0.75  # inches more on the right for a colour bar
_JOINER = "\N{WORD JOINER}"  # before a space that is not in the title
MOST_NAMED = 12  # tasks up to which they have names, each cell has its number written in, and there is no colour bar


def accuracy_matrix_figure(
    rows: Sequence[Mapping[str, float]],
    metric_names: MetricNames,
    title: str,
    labels: Sequence[str] = (),
    step: str = "task",
) -> Figure:
    """Return a heat map of the accuracy on each task seen so far after each task, percent from 0 to 100.

    `rows` are those of a trial, at least one. Without `labels`, and for many tasks, tasks have numbers, and many have a
    colour bar in place of numbers in the cells. `step` is the word for a task.
    """
    cells = accuracy_cells(rows, metric_names)
    tasks = len(cells[0])
    numbers = tasks <= MOST_NAMED
    width, height = max(1.8, 0.5 * min(tasks, 16)), max(1.4, 0.42 * min(len(rows), 16))
    names = 0.062 * (max(map(len, labels[:tasks])) + 3) if numbers and labels else 0.0  # inches of upright ones
    below = _BELOW + names
    right = _RIGHT if numbers else _RIGHT + _BAR
    lines = _title_lines(title, int(TITLE_LETTERS * (_LEFT + width + right)))
    figure = new_figure((_LEFT + width + right, height + below + _ABOVE + _LINE * len(lines)))
    figure.text(0.5, 1 - 0.08 / figure.get_figheight(), plain("\n".join(lines)), fontsize=9, ha="center", va="top")
    axes = _add_axes(figure, _LEFT, below, width, height)
    image = axes.imshow(np.array(cells, dtype=float), vmin=0, vmax=100, cmap="viridis", aspect="auto")
    if numbers:
        for y, line in enumerate(cells):
            for x, value in enumerate(line):
                if value is not None:
                    colour = "black" if value > 60 else "white"
                    axes.text(x, y, f"{value:.0f}", ha="center", va="center", color=colour, fontsize=9)
    else:
        figure.colorbar(image, cax=_add_axes(figure, _LEFT + width + 0.15, below, 0.12, height))
    every = math.ceil(tasks / 20)
    if numbers and labels:
        named = [plain(title) for title in titles(labels, tasks)]
        axes.set_xticks(range(tasks), named, rotation=90, fontsize=8)
    else:
        axes.set_xticks(range(0, tasks, every), [str(k + 1) for k in range(0, tasks, every)])
    after = range(0, len(rows), math.ceil(len(rows) / 20))
    axes.set_yticks(after, [str(int(rows[k]["task"])) for k in after])
    axes.set_xlabel(f"{metric_names.prefix} accuracy (%) on {step}")
    axes.set_ylabel(f"after {step}")
    axes.spines[:].set_visible(False)
    return figure


def _title_lines(title: str, letters: int) -> list[str]:
    """Return the lines of a title; they end at spaces and behind `,`, `?` and `&`, with no space of their own there."""
    parted = re.sub(r"(?<=[,?&])(?=\S)", f"{_JOINER} ", title)
    lines = textwrap.wrap(parted, letters, break_on_hyphens=False)
    return [line.replace(f"{_JOINER} ", "").replace(_JOINER, "") for line in lines]


def _add_axes(figure: Figure, left: float, below: float, width: float, height: float) -> Axes:
    """Add axes at a place in inches: a layout that is worked out draws every picture twice, and a search has many."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, below / up, width / across, height / up))
