"""The picture of docs/explanation/curvature.md.

It shows what each approximation keeps of the curvature, and how well it orders the risk.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.axes import Axes

from benchmarks.curvature.running import BENCHMARKS
from benchmarks.curvature.views import VIEWS, correlations
from tausearch.presentation import LINES
from tausearch.presentation.figures.style import new_figure

NAMES = ("Hessian", "Gauss-Newton", "its blocks", "Kronecker", "diagonal")
Row = dict[str, Any]


def draw(rows: Sequence[Row], file: Path) -> None:
    """Draw a point for each cell of the study that displaces weights, coloured by benchmark."""
    figure = new_figure((9.0, 3.6), layout="constrained")
    kept, ordered = figure.subplots(1, 2)
    for number, benchmark in enumerate(BENCHMARKS):
        cells = [row["views"] for row in rows if row["benchmark"] == benchmark and row["views"]]
        if cells:
            _points(kept, [shares(each) for each in cells], number, benchmark)
            _points(ordered, [correlations(each) for each in cells], number, benchmark)
    kept.set_yscale("log")
    kept.set_title("tau^T H tau over Gauss-Newton's")
    ordered.set_title("rank correlation with the true rise of the risk")
    ordered.axhline(0.0, linewidth=0.8, color="grey")
    kept.legend()
    for axes in (kept, ordered):
        axes.set_xticks(range(len(VIEWS)), NAMES, rotation=20)
    figure.savefig(file)


def shares(rows: Sequence[Row]) -> dict[str, float]:
    """Return the median over the pairs of each view's share of the Gauss-Newton view."""
    return {view: median(row[view] / row["gauss-newton"] for row in rows) for view in VIEWS}


def _points(axes: Axes, cells: Sequence[dict[str, float]], number: int, benchmark: str) -> None:
    """Draw the points of a benchmark, and a bar at their median."""
    colour = LINES[number % len(LINES)]
    for place, view in enumerate(VIEWS):
        values = [each[view] for each in cells]
        x = place + 0.22 * (number - 1)
        axes.scatter([x] * len(values), values, s=10, alpha=0.5, color=colour)
        axes.scatter([x], [median(values)], marker="_", s=120, color=colour, label=benchmark if place == 0 else None)
