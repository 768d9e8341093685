"""The plots of a search: most of them Optuna's own, with our axes and what a trial says where the pointer is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import optuna
import plotly.graph_objects as go

from search_spaces import Range
from tausearch.presentation import AccuracyAxis
from tausearch.report.insight_plots import front_plot, importances_plot, trust_plot
from tausearch.report.plots import ACCENT, BEST, FAINT, SCALE, Plot, make_plot, pointing, ticks
from tausearch.report.searched import Searched
from tausearch.runs import TrialSummary

_MOST_IN_CONTOUR = 100  # trials: its matrix grows with their square
_TICKS = 10


def search_plots(searched: Searched) -> Iterator[Plot]:
    """Yield the plots of a search that its trials suffice for, from what is asked first to what is asked last.

    Args:
        searched: The search.

    Yields:
        History, accuracy task by task, what it costs in forgetting and time, importances, the two hyperparameters that
        matter most, early accuracies' trust.
    """
    if not searched.trials:
        return
    if searched.finished:
        yield _history(searched)
    if any(trial.rows and trial.status != "failed" for trial in searched.trials):
        yield _by_task(searched)
    if len(searched.finished) > 1:
        yield front_plot(searched)
    if searched.importances:
        yield importances_plot(searched)
    if len(searched.importances) > 1:
        yield from _contour(searched, *list(searched.importances)[:2])
    if searched.correlations:
        yield trust_plot(searched)


def slice_plots(searched: Searched) -> Iterator[Plot]:
    """Yield one small plot per hyperparameter: its value and the final accuracy, trial by trial."""
    if not searched.finished:
        return
    axis = AccuracyAxis.of(_values(searched.finished))
    for name in searched.spec.space:
        figure = optuna.visualization.plot_slice(searched.study, params=[name], target_name="final accuracy (%)")
        for trace in figure.data:
            shown = [searched.trials[place] for place in trace.marker.color]
            below = [value < axis.floor for value in trace.y]
            trace.update(y=[axis.edge if off else value for off, value in zip(below, trace.y, strict=True)])
            trace.marker.update(symbol=["triangle-down" if off else "circle" for off in below], size=8)
            trace.marker.update(colorscale=SCALE, showscale=False, line={"width": 0})
            trace.update(**pointing([trial.number for trial in shown]))
        figure.update_yaxes(range=axis.range)
        figure.update_xaxes(title=None, **_ticks(searched, name))
        yield make_plot(figure, name, _span(searched, name), height=230)


def _history(searched: Searched) -> Plot:
    axis = AccuracyAxis.of(_values(searched.finished))
    figure = optuna.visualization.plot_optimization_history(searched.study, target_name="final accuracy (%)")
    points, best = figure.data[:2]
    points.update(
        x=[trial.number for trial in searched.finished], name="trial", marker={"color": ACCENT, "size": 8}
    ).update(**pointing([trial.number for trial in searched.finished]))
    best.update(x=[searched.trials[place].number for place in best.x], name="best so far", hoverinfo="skip")
    best.update(line={"color": BEST, "shape": "hv"})
    figure = go.Figure([points, best, *_off_the_axis(searched, axis)], figure.layout)
    figure.update_yaxes(range=axis.range)
    figure.update_xaxes(dtick=max(1, math.ceil(searched.trials[-1].number / _TICKS)), title="trial")
    return make_plot(figure, "History", _history_text(searched, axis))


def _off_the_axis(searched: Searched, axis: AccuracyAxis) -> Iterator[go.Scatter]:
    """Mark at the lower edge what is not on the axis: outliers, and trials without a final accuracy."""
    below = [trial for trial in searched.finished if (trial.value or 0.0) < axis.floor]
    without = [trial for trial in searched.trials if trial.value is None]
    for name, trials, symbol, colour in (
        ("far below", below, "triangle-down", ACCENT),
        ("stopped, diverged or failed", without, "x-thin-open", FAINT),
    ):
        if trials:
            yield go.Scatter(
                x=[trial.number for trial in trials],
                y=[axis.edge] * len(trials),
                mode="markers",
                name=name,
                marker={"symbol": symbol, "color": colour, "size": 9},
                **pointing([trial.number for trial in trials]),
            )


def _history_text(searched: Searched, axis: AccuracyAxis) -> str:
    values = _values(searched.finished)
    best = searched.best
    below = sum(value < axis.floor for value in values)
    chosen = "none keeps the constraints" if best is None else f"trial {best.number} is the best"
    off = f" {below} far below the others, at the lower edge." if below else ""
    return (
        f"Final accuracy on the validation split of {len(values)} finished trials, from {min(values):.2f} to"
        f" {max(values):.2f} %; {chosen}.{off}"
    )


def _by_task(searched: Searched) -> Plot:
    """Draw average accuracy after each task; a diverged trial to its last finished task, a failed one not at all."""
    figure = optuna.visualization.plot_intermediate_values(searched.study)
    drawn = (pair for pair in _pairs(searched) if pair[0].status != "failed" and pair[1].intermediate_values)
    reported = [trial for trial, _ in drawn]
    best = searched.best
    for trace, trial in zip(figure.data, reported, strict=True):
        stopped, chosen = trial.status != "complete", best is not None and trial.number == best.number
        trace.update(
            x=trace.x[: trial.tasks_done],
            y=trace.y[: trial.tasks_done],
            line={"color": BEST if chosen else FAINT if stopped else ACCENT, "width": 2.5 if chosen else 1.2},
            opacity=1 if chosen else 0.6,
            marker={"size": 5},
            **pointing(trial.number),
        )
    axis = AccuracyAxis.of([value for trace in figure.data for value in trace.y])
    figure.update_yaxes(title="average accuracy (%)", range=axis.range)
    figure.update_xaxes(title="after task", dtick=max(1, math.ceil(searched.spec.steps / _TICKS)))
    ended_early = sum(trial.status != "complete" for trial in reported)
    grey = f", {ended_early} that did not reach the last task grey" if ended_early else ""
    text = f"Accuracy over the tasks seen so far, a line per trial; the best one thick{grey}."
    return make_plot(figure, "Task by task", text)


def _pairs(searched: Searched) -> Iterator[tuple[TrialSummary, optuna.trial.FrozenTrial]]:
    return zip(searched.trials, searched.study.get_trials(deepcopy=False), strict=True)


def _contour(searched: Searched, first: str, second: str) -> Iterator[Plot]:
    """Draw the two hyperparameters that matter most, if each was tried at more than one value."""
    if any(len({trial.hyperparameters[name] for trial in searched.finished}) < 2 for name in (first, second)):
        return
    best = sorted(searched.finished, key=lambda trial: -(trial.value or 0.0))[:_MOST_IN_CONTOUR]
    shown = Searched(searched.spec, sorted(best, key=lambda trial: trial.number), {})
    figure = optuna.visualization.plot_contour(shown.study, params=[first, second], target_name="accuracy")
    surface, points = figure.data[:2]
    axis = AccuracyAxis.of(_values(shown.finished))
    surface.update(zauto=False, zmin=max(axis.floor, min(_values(shown.finished))), zmax=max(_values(shown.finished)))
    surface.update(colorscale=SCALE, reversescale=False, colorbar={"title": "%", "thickness": 12})
    points.update(marker={"color": "#ffffff", "size": 7, "line": {"color": "#1f2733", "width": 1.5}})
    points.update(**pointing([trial.number for trial in shown.finished]))
    every = f"the best {len(best)}" if len(best) < len(searched.finished) else "all"
    figure.update_xaxes(**_ticks(shown, figure.layout.xaxis.title.text))
    figure.update_yaxes(**_ticks(shown, figure.layout.yaxis.title.text))
    text = f"Final accuracy over {first} and {second}, between the points of {every} finished trials."
    yield make_plot(figure, "The two that matter most", text, height=340)


def _span(searched: Searched, name: str) -> str:
    tried = [trial.hyperparameters[name] for trial in searched.finished]
    if searched.spec.space[name].numbers:
        return f"Tried from {min(tried):.3g} to {max(tried):.3g}."
    return f"Tried: {', '.join(sorted({str(value) for value in tried}))}."


def _ticks(searched: Searched, name: str) -> dict[str, Any]:
    dimension = searched.spec.space[name]
    if not isinstance(dimension, Range):
        return {}  # categories
    return ticks([float(trial.hyperparameters[name]) for trial in searched.finished], log=dimension.log)


def _values(trials: Sequence[TrialSummary]) -> list[float]:
    return [trial.value for trial in trials if trial.value is not None]
