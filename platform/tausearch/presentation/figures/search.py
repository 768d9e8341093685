"""Figures of a search, for its run directory and for MLflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from search_spaces import Dimension, Range
from tausearch.presentation.figures.axes import AccuracyAxis
from tausearch.presentation.figures.front import draw_front
from tausearch.presentation.figures.style import WIDE, entitle, new_figure, one_pair_of_axes, save
from tausearch.runs import Importance, TrialSummary, correlation_interval


def draw_search(
    trials: Sequence[TrialSummary],
    space: Mapping[str, Dimension],
    importances: Mapping[str, Importance],
    correlations: Mapping[int, float],
    folder: Path,
    title: str = "",
) -> list[Path]:
    """Draw all figures of a search that its trials suffice for.

    Args:
        trials: The trials of the search.
        space: The search space: hyperparameter to its dimension.
        importances: Hyperparameter to its importance, from `runs.importances`.
        correlations: Task k to the rank correlation, from `runs.rank_correlations`.
        folder: The folder to write to; made if missing.
        title: What stands above each figure: of which search it is.

    Returns:
        The paths of the PNG files that were written; beside each lies a PDF.
    """
    finished = [trial for trial in trials if trial.status == "complete" and trial.value is not None]
    stopped = [trial for trial in trials if trial.status in ("pruned", "diverged")]
    plots: dict[str, Callable[[], Figure]] = {}
    if finished:
        plots["history"] = lambda: _history(finished)
    if finished and space:
        plots["slices"] = lambda: _slices(finished, stopped, space)
    if len(finished) > 1:
        plots["pareto_front"] = lambda: draw_front(finished)
    if importances:
        plots["importances"] = lambda: _bars(importances)
    if correlations:
        plots["early_accuracy"] = lambda: _correlations(correlations, len(finished))
    folder.mkdir(parents=True, exist_ok=True)
    return [save(_titled(draw(), title), folder / f"{name}.png") for name, draw in plots.items()]


def _titled(figure: Figure, title: str) -> Figure:
    if title:
        entitle(figure, title)
    return figure


def _spare_outliers(axes: Axes, values: Sequence[float]) -> None:
    """Let no outlier spoil an axis, by the rule of the report's; how many lie beyond is said at its edge."""
    axis = AccuracyAxis.of(values)
    beyond = [value for value in values if value < axis.low]
    if beyond:
        axes.set_ylim(axis.low, axis.high)
        note = f"{len(beyond)} below the axis, {'at' if len(beyond) == 1 else 'down to'} {min(beyond):.1f} %"
        axes.annotate(note, (0.01, 0.01), xycoords="axes fraction", fontsize=8, color="grey")


def _history(finished: Sequence[TrialSummary]) -> Figure:
    numbers, values = [trial.number for trial in finished], [trial.value or 0.0 for trial in finished]
    best = [max(values[: i + 1]) for i in range(len(values))]
    figure, axes = one_pair_of_axes()
    axes.scatter(numbers, values, label="trial", zorder=3)
    axes.step(numbers, best, where="post", color="tab:orange", label="best so far")
    axes.set(xlabel="trial", ylabel="final accuracy (%)", title="Optimisation history")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _spare_outliers(axes, values)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    axes.grid(alpha=0.3)
    return figure


def _slices(
    finished: Sequence[TrialSummary], stopped: Sequence[TrialSummary], space: Mapping[str, Dimension]
) -> Figure:
    columns = min(len(space), 4)
    rows = -(-len(space) // columns)
    figure = new_figure((3.2 * columns + 1, 3.2 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    colours = ScalarMappable(Normalize(0, max(1, *(trial.number for trial in finished))), "viridis_r")
    for axes, (name, dimension) in zip(grid.flat, space.items(), strict=False):
        of = _values if isinstance(dimension, Range) else _words
        colour = colours.to_rgba(np.array([trial.number for trial in finished]))
        axes.scatter(
            of(finished, name), [trial.value for trial in finished], c=colour, edgecolors="grey", linewidths=0.5
        )
        _mark_below(axes, of(stopped, name))
        if isinstance(dimension, Range) and dimension.log:
            _few_ticks(axes)
        axes.set_xlabel(name)
        axes.grid(alpha=0.3)
    _spare_outliers(grid[0, 0], [trial.value or 0.0 for trial in finished])  # all share it
    for axes in grid.flat[len(space) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel("final accuracy (%)")
    figure.colorbar(colours, ax=grid, label="trial", ticks=MaxNLocator(integer=True))
    if stopped:
        figure.supxlabel("grey marks: stopped early or diverged", fontsize="small", color="grey")
    return figure


def _mark_below(axes: Axes, x: Sequence[float] | Sequence[str]) -> None:
    """Mark trials without a final accuracy at the lower edge, where the axis reaches them, too."""
    if x:
        axes.scatter(x, [0.02] * len(x), marker="|", color="grey", transform=axes.get_xaxis_transform())
        places = np.asarray(axes.convert_xunits(x), dtype=float)
        axes.update_datalim(np.column_stack([places, np.zeros(len(x))]), updatey=False)
        axes.autoscale_view(scaley=False)


def _values(trials: Sequence[TrialSummary], name: str) -> list[float]:
    return [float(trial.hyperparameters[name]) for trial in trials]


def _words(trials: Sequence[TrialSummary], name: str) -> list[str]:
    return [str(trial.hyperparameters[name]) for trial in trials]


def _few_ticks(axes: Axes) -> None:
    """Make a logarithmic axis whose labels have room, however few decades it spans."""
    axes.set_xscale("log")
    first, last = axes.get_xlim()
    decades = np.log10(last / first)
    if decades < 3:  # beyond, matplotlib's own powers of ten do
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 1 else (1, 3)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _bars(importances: Mapping[str, Importance]) -> Figure:
    figure, axes = one_pair_of_axes((WIDE[0], 1.2 + 0.45 * len(importances)))
    names = list(importances)[::-1]
    shown = [importances[name] for name in names]
    beyond = [[each.share - each.low for each in shown], [each.high - each.share for each in shown]]
    axes.barh(names, [each.share for each in shown], xerr=beyond, error_kw={"ecolor": "0.35", "capsize": 3})
    for place, each in enumerate(shown):  # in a column: at the end of its interval a number would be read as that end
        axes.text(1.02, place, f"{each.share:.2f}", va="center", transform=axes.get_yaxis_transform())
    axes.set(xlabel="share of what sets the best trials apart (PED-ANOVA), with its 90 % interval", xlim=(0, 1))
    return figure


def _correlations(correlations: Mapping[int, float], finished: int) -> Figure:
    figure, axes = one_pair_of_axes()
    values = list(correlations.values())
    between = [correlation_interval(value, finished) for value in values]
    beyond = [[value - low, high - value] for value, (low, high) in zip(values, between, strict=True)]
    axes.errorbar(list(correlations), values, yerr=np.transpose(beyond), marker="o", capsize=3)
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set(
        xlabel="task k",
        ylabel="Spearman's rank correlation",
        title=f"Accuracy after task k against final accuracy ({finished} trials, 95 % intervals)",
        ylim=(-1.05, 1.05),
    )
    axes.set_xticks(list(correlations))
    axes.grid(alpha=0.3)
    return figure
