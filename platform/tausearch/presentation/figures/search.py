"""Figures of a search, for its run directory and for MLflow."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tausearch.presentation.figures.matrix import accuracy_matrix_figure
from tausearch.presentation.figures.style import (
    TITLE_LETTERS,
    WIDE,
    entitle,
    legend_layout,
    make_logarithmic,
    new_figure,
    plain,
    run_caption,
    save_all,
)
from tausearch.presentation.plots import SCALE, TICKS, Axis, Plot, Series
from tausearch.presentation.search_plots import SearchPlots
from tausearch.runs import Importance, SearchSpec, TrialSummary

_MARKS = {"circle": "o", "triangle": "v", "cross": "x"}
_BESIDE = (8, 0)  # points from a mark to the number of trials there
_ALONG = 30  # letters that fit along the axis of a facet
_FACET = 3.2  # inches of one of several facets
_LETTERS, _LINE = 16, 0.16  # letters in an inch of a caption, and inches of its line
_ABREAST = 4  # names in a line of the legend, at most
_LONGEST = 24  # letters of a choice at an axis
_COLOURS = LinearSegmentedColormap.from_list("trials", SCALE)


def draw_search(
    spec: SearchSpec,
    trials: Sequence[TrialSummary],
    importances: Mapping[str, Importance],
    correlations: Mapping[int, float],
    folder: Path,
    chosen: int | None = None,
) -> list[Path]:
    """Draw all figures of a search that its trials suffice for, and the accuracy matrix of the chosen trial.

    Arguments are those of `SearchPlots`.

    Returns:
        The paths of the PNG files that were written, in a folder made for them; beside each lies a PDF.
    """
    plots = SearchPlots(spec, trials, importances, correlations, chosen)
    named = {
        "history": plots.history(),
        "slices": plots.slices(),
        "pareto_front": plots.front(),
        "importances": plots.bars(),
        "early_accuracy": plots.early_accuracy(),
    }
    figures = {name: draw_figure(plot, run_caption(spec)) for name, plot in named.items() if plot}
    for trial in (each for each in trials if each.number == chosen):
        figures["accuracy_matrix"] = _matrix(spec, trial)
    return save_all(figures, folder)


def _matrix(spec: SearchSpec, trial: TrialSummary) -> Figure:
    labels = [task.label for task in spec.tasks]
    title = f"{run_caption(spec)}: trial {trial.number}"
    return accuracy_matrix_figure(trial.rows, spec.metrics, title, labels, spec.step_noun)


def draw_figure(plot: Plot, of: str) -> Figure:
    """Draw a plot with at most four facets in a row and a caption above them."""
    columns = min(len(plot.facets), 4)
    rows = -(-len(plot.facets) // columns)
    width = max(WIDE[0], _FACET * columns + 1)
    above = textwrap.wrap(f"{plot.title}: {of}", int(width * TITLE_LETTERS))
    below = textwrap.wrap(plot.caption, int(width * _LETTERS))
    names = [series.name for series in plot.facets[0].series if series.name]
    abreast, fits = legend_layout(names, width, _ABREAST)
    names = [textwrap.fill(name, fits) for name in names]
    lines = -(-len(names) // abreast) * max((name.count("\n") + 1 for name in names), default=0)
    room = lines + lines // 2  # empty lines of the title, for the legend, whose lines are higher
    inside = 0.9 + 0.45 * len(plot.y.words) if plot.y.words else max(3.7, _FACET * rows)
    figure = new_figure((width, inside + _LINE * (len(above + below) + max(0, room - 1))), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    entitle(figure, "\n".join([*above, *[""] * room]))
    figure.supxlabel(plain("\n".join(below)), fontsize=8, color="0.35")
    for axes in grid.flat[len(plot.facets) :]:
        axes.set_visible(False)
    name, *ends = plot.scale or ("", 0, 1)
    colours = ScalarMappable(Normalize(*ends), _COLOURS)
    for axes, facet in zip(grid.flat, plot.facets, strict=False):
        for series in facet.series:
            colour = series.colour if isinstance(series.colour, str) else colours.to_rgba(np.asarray(series.colour))
            _draw(axes, series, _places(series.x, facet.x), _places(series.y, plot.y), colour)
        _set_axis(axes, "x", facet.x)
        _set_axis(axes, "y", plot.y if axes in grid[:, 0] else replace(plot.y, label=""))
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
    if plot.scale is not None:
        figure.colorbar(colours, ax=grid, label=name, ticks=MaxNLocator(integer=True))
    if plot.legend:
        under = 1 - _LINE * len(above) / figure.get_figheight()  # the empty last lines of the title
        marks, names = grid[0, 0].get_legend_handles_labels()
        figure.legend(
            marks,
            [plain(textwrap.fill(name, fits)) for name in names],
            loc="upper center",
            bbox_to_anchor=(0.5, under),
            ncols=abreast,
            frameon=False,
            fontsize=9,
            borderaxespad=0,
        )
    return figure


def _draw(axes: Axes, series: Series, x: np.ndarray, y: np.ndarray, colour: Any) -> None:
    beyond: dict[str, Any] = {"capsize": 3, "ecolor": "0.35"}
    if series.kind == "steps":
        axes.step(x, y, where="post", color=colour, label=series.name, zorder=1)
    elif series.kind == "line":
        axes.errorbar(
            x, y, yerr=_beyond(y, series), marker=_MARKS[series.mark], color=colour, label=series.name or None, **beyond
        )
    elif series.kind == "bars":
        axes.barh(y, x, xerr=_beyond(x, series), color=colour, error_kw=beyond)
        for share, place in zip(x, y, strict=True):  # in a column: beside its bar a number would hide the interval
            axes.text(1.02, place, f"{share:.2f}", va="center", transform=axes.get_yaxis_transform())
    elif series.mark == "ring":
        axes.scatter(x, y, s=90, facecolors="none", edgecolors=colour, label=series.name)
    else:
        axes.scatter(x, y, s=28, c=colour, marker=_MARKS[series.mark], label=series.name)
        for place, count in zip(zip(x, y, strict=True), series.counts, strict=True):
            if count:
                beside: dict[str, Any] = {"xytext": _BESIDE, "textcoords": "offset points", "va": "center"}
                axes.annotate(count, place, **beside, fontsize=8, annotation_clip=True)  # goes with its point alone


def _beyond(values: np.ndarray, series: Series) -> np.ndarray | None:
    return np.abs(np.array([series.low, series.high]) - values) if series.low else None


def _places(values: Sequence[float | str], axis: Axis) -> np.ndarray:
    return np.array([axis.words.index(str(value)) for value in values] if axis.words else values, dtype=float)


def _set_axis(axes: Axes, which: Literal["x", "y"], axis: Axis) -> None:
    axes.set(**{f"{which}label": textwrap.fill(plain(axis.label), _ALONG, break_long_words=False)})
    if axis.ends is not None:
        axes.set(**{f"{which}lim": axis.ends})
    if axis.integer_ticks:
        axes.xaxis.set_major_locator(MaxNLocator(TICKS, integer=True))
    if axis.zero:
        axes.axhline(0, color="grey", linewidth=0.8)
    if axis.words:
        words = [word if len(word) <= _LONGEST else f"…{word[1 - _LONGEST :]}" for word in axis.words]
        axes.set(**{f"{which}ticks": range(len(words)), f"{which}ticklabels": list(map(plain, words))})
        if which == "x" and sum(map(len, words)) + 2 * len(words) > _ALONG:
            axes.tick_params("x", labelsize=8, rotation=30)
            for label in axes.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
    if axis.log:
        make_logarithmic(axes, which)
