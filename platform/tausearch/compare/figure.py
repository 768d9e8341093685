"""The picture of a comparison: methods by benchmark, ours and the paper's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tausearch.compare.cells import label
from tausearch.compare.comparison import Comparison, Row
from tausearch.compare.runs import describe
from tausearch.paper import PaperResults
from trainables.errors import InputError

_COLUMNS = 3
_PANEL, _ROW, _AROUND = 4.6, 0.26, 1.1  # inches: width of a panel, height of a method, title and axis of a panel
Panel = tuple[Comparison, list[Row]]
_OURS, _PAPER = "#c2410c", "#4d82b7"


def draw(comparisons: Sequence[Comparison], paper: PaperResults, path: Path) -> int:
    """Draw one panel per benchmark and save the picture; the kind is the file's ending (png, pdf, svg).

    Runs of a benchmark that the paper has, but with another protocol, are left out; so are those tuned elsewhere.

    Args:
        comparisons: What to draw.
        paper: For the titles of its benchmarks.
        path: Where to; its folder must exist.

    Returns:
        How many runs were left out.

    Raises:
        InputError: If the picture cannot be written.
    """
    panels = [(comparison, _drawn(comparison)) for comparison in comparisons]
    panels = [(comparison, rows) for comparison, rows in panels if rows]
    shown = sum(row.ours is not None for _, rows in panels for row in rows)
    left_out = sum(row.ours is not None for c in comparisons for row in (*c.rows, *c.apart)) - shown
    lines = [line for in_paper in (True, False) for line in _lines([p for p in panels if p[0].in_paper == in_paper])]
    columns = max((len(line) for line in lines), default=1)
    heights = [_AROUND + _ROW * max(len(rows) for _, rows in line) for line in lines] or [_AROUND]
    figure = Figure(figsize=(_PANEL * columns, sum(heights) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    for number, line in enumerate(lines):
        longest = max(len(rows) for _, rows in line)
        for column, (comparison, rows) in enumerate(line):
            _panel(figure.add_subplot(grid[number, column]), comparison, rows, longest, paper)
    figure.legend(handles=_legend(), loc="outside upper center", ncols=min(2, columns), frameon=False, fontsize=9)
    if left_out:
        note = f"left out: {left_out} run{'s' * (left_out > 1)} of another protocol, or tuned elsewhere"
        figure.supxlabel(note, fontsize=8, color="0.4")
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"--figure {path}: cannot be written ({reason})") from error
    return left_out


def _drawn(comparison: Comparison) -> list[Row]:
    """Return the rows of a panel: what can be compared; of a benchmark that the paper lacks, what was tuned there."""
    if comparison.in_paper:
        return list(comparison.rows)
    return [row for row in comparison.apart if row.ours and row.ours.tuned_on in (None, comparison.benchmark)]


def _lines(panels: Sequence[Panel]) -> list[Sequence[Panel]]:
    return [panels[start : start + _COLUMNS] for start in range(0, len(panels), _COLUMNS)]


def _panel(axes: Axes, comparison: Comparison, rows: Sequence[Row], longest: int, paper: PaperResults) -> None:
    names = [label(row.method, describe(row.settings)) for row in rows]
    twice = {name for name in names if names.count(name) > 1}
    labels = [f"{n}: {r.ours.spec.name}" if n in twice and r.ours else n for n, r in zip(names, rows, strict=True)]
    for height, row in enumerate(rows):
        apart = 0.13 if row.ours is not None and row.paper is not None else 0.0
        if row.paper is not None:
            spread = row.paper.std or 0.0
            axes.errorbar(row.paper.accuracy, height - apart, xerr=spread, fmt="D", mfc="white", color=_PAPER, ms=4.5)
        if row.ours is not None:
            accuracy = row.ours.accuracy
            axes.errorbar(accuracy.mean, height + apart, xerr=accuracy.std or 0.0, fmt="o", color=_OURS, ms=5)
    axes.set_yticks(range(len(rows)), labels, fontsize=8)
    axes.set_ylim(longest - 0.4, -0.6)  # the same distance between methods in all panels of a line
    axes.grid(axis="both", color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, labelsize=8)
    title = paper.benchmarks[comparison.benchmark].title if comparison.in_paper else comparison.benchmark
    axes.set_title(title if comparison.in_paper else f"{title} (not in the paper)", fontsize=10)
    axes.set_xlabel("final accuracy, %", fontsize=8)
    low, high = axes.get_xlim()
    if high - low < 5:  # one or two points would fill the panel with their tenths
        middle = (low + high) / 2
        low, high = middle - 2.5, middle + 2.5
    axes.set_xlim(max(-1.0, math.floor(low)), min(101.0, math.ceil(high)))


def _legend() -> list[Line2D]:
    ours = Line2D([], [], color=_OURS, marker="o", label="ours: mean ± standard deviation over seeds")
    theirs = Line2D(
        [], [], color=_PAPER, marker="D", mfc="white", label="the paper: mean ± standard deviation of 3 runs"
    )
    return [ours, theirs]
