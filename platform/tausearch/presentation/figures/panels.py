"""Values with spreads, ours and the paper's side by side: one panel per benchmark, one line per method."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tausearch.presentation.figures.style import new_figure, plain

_COLUMNS = 3
_PANEL, _ROW, _AROUND = 4.6, 0.26, 1.1  # inches: width of a panel, height of a line, title and axis of a panel
_LETTERS = 10  # letters of a title in an inch
_LABEL = 36  # letters of a line of a label
_OURS, _PAPER = "#c2410c", "#4d82b7"
Spread = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """One line of a panel: a method's mean and standard deviation in percent, ours and the paper's."""

    label: str
    ours: Spread | None
    paper: Spread | None


@dataclass(frozen=True)
class Panel:
    """The panel of one benchmark, its lines from top to bottom; panels of one `group` stand together."""

    title: str
    lines: tuple[Line, ...]
    group: int


def draw_panels(panels: Sequence[Panel], note: str = "", over: str = "seeds") -> Figure:
    """Draw all panels, three abreast, with a note below them; our deviations are those over `over`."""
    groups = sorted({panel.group for panel in panels})
    rows = [row for group in groups for row in _abreast([panel for panel in panels if panel.group == group])]
    columns = max((len(row) for row in rows), default=1)
    heights = [_AROUND + max(len(panel.lines) for panel in row) * max(map(_row, row)) for row in rows] or [_AROUND]
    figure = new_figure((_PANEL * columns, sum(heights) + 0.6), layout="constrained")
    grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
    for number, row in enumerate(rows):
        longest = max(len(panel.lines) for panel in row)
        for column, panel in enumerate(row):
            _draw(figure.add_subplot(grid[number, column]), panel, longest)
    figure.legend(
        handles=_legend(panels, over), loc="outside upper center", ncols=min(2, columns), frameon=False, fontsize=9
    )
    if note:
        figure.supxlabel(note, fontsize=8, color="0.4")
    return figure


def _abreast(panels: Sequence[Panel]) -> list[Sequence[Panel]]:
    return [panels[start : start + _COLUMNS] for start in range(0, len(panels), _COLUMNS)]


def _row(panel: Panel) -> float:
    """Return the height of a line of a panel in inches; two lines of a label fit a usual one."""
    return _ROW * max(1.0, max(len(_wrapped(line.label).splitlines()) for line in panel.lines) / 2)


def _wrapped(label: str) -> str:
    return textwrap.fill(label, _LABEL, break_on_hyphens=False)


def _draw(axes: Axes, panel: Panel, longest: int) -> None:
    for height, line in enumerate(panel.lines):
        offset = 0.13 if line.ours is not None and line.paper is not None else 0.0
        if line.paper is not None:
            value, spread = line.paper
            axes.errorbar(value, height - offset, xerr=spread, fmt="D", mfc="white", color=_PAPER, ms=4.5)
        if line.ours is not None:
            value, spread = line.ours
            axes.errorbar(value, height + offset, xerr=spread, fmt="o", color=_OURS, ms=5)
    axes.set_yticks(range(len(panel.lines)), [plain(_wrapped(line.label)) for line in panel.lines], fontsize=8)
    axes.set_ylim(longest - 0.4, -0.6)  # the same distance between methods in all panels of a row
    axes.grid(axis="both", color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, labelsize=8)
    axes.set_title(plain(textwrap.fill(panel.title, int(_PANEL * _LETTERS))), fontsize=10)
    axes.set_xlabel("final accuracy, %", fontsize=8)
    low, high = axes.get_xlim()
    if high - low < 5:  # one or two points would fill the panel with their tenths
        middle = (low + high) / 2
        low, high = middle - 2.5, middle + 2.5
    axes.set_xlim(max(-1.0, math.floor(low)), min(101.0, math.ceil(high)))


def _legend(panels: Sequence[Panel], over: str) -> list[Line2D]:
    ours = Line2D([], [], color=_OURS, marker="o", label=f"ours: mean ± standard deviation over {over}")
    theirs = Line2D(
        [], [], color=_PAPER, marker="D", mfc="white", label="the paper: mean ± standard deviation of 3 runs"
    )
    lines = [line for panel in panels for line in panel.lines]
    drawn = (any(line.ours for line in lines), any(line.paper for line in lines))
    return [mark for mark, is_drawn in zip((ours, theirs), drawn, strict=True) if is_drawn]
