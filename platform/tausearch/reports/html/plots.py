"""Plots of the page: descriptions drawn with plotly, as JSON, with the words that stand for them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from tausearch.presentation import FAINT, SCALE, TICKS, Axis, Plot, Series

COLOURS = [[place / 2, colour] for place, colour in enumerate(SCALE)]
_MARKS = {"circle": "circle", "ring": "circle-open", "triangle": "triangle-down", "cross": "x-thin-open"}


@dataclass(frozen=True)
class PagePlot:
    """A plot of the page."""

    title: str
    text: str  # the caption with the main numbers, which a screen reader says, too
    figure: str  # the plotly figure, as JSON that can stand in a script element
    height: int  # pixels


def draw_plot(plot: Plot, height: int = 300) -> PagePlot:
    """Draw a plot with plotly; bars lie where the vertical axis has words."""
    figure = make_subplots(cols=len(plot.facets), shared_yaxes=True, horizontal_spacing=0.06)
    for column, facet in enumerate(plot.facets, start=1):
        traces = []
        for series in facet.series:
            shown = column == 1 and bool(series.name) and plot.scale is None
            traces.append(_trace(series, plot).update(name=series.name, showlegend=shown))
        figure.add_traces(traces, rows=1, cols=column)  # at once: one by one, plotly copies all of them each time
        figure.update_xaxes(col=column, **_axis(facet.x, [x for series in facet.series for x in series.x]))
    figure.update_yaxes(**_axis(replace(plot.y, label="")))
    figure.update_yaxes(col=1, title=plot.y.label)
    figure.update_layout(barmode="stack")
    return make_plot(figure, plot.title, " ".join(filter(None, [plot.caption, plot.numbers])), height)


def make_plot(figure: go.Figure, title: str, text: str, height: int = 300) -> PagePlot:
    """Return a figure as a plot of the page, in the look that all of them share.

    Colours of text and lines are left to the page's style sheet, which knows the reader's colour scheme.
    """
    figure.update_layout(
        title=None,
        template=go.layout.Template(),
        width=None,
        autosize=True,
        margin={"l": 52, "r": 14, "t": 12, "b": 44},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"size": 12},
        hoverlabel={"bgcolor": "#1f2733", "bordercolor": "#1f2733", "align": "left"},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    )
    for axes in (figure.update_xaxes, figure.update_yaxes):
        axes(automargin=True, gridcolor=FAINT, zerolinecolor=FAINT, title_standoff=8)
    return PagePlot(title, text, script_json(_plain(figure.to_plotly_json())), height)


def script_json(content: Any) -> str:
    """Return plain values as JSON that can stand in a script element.

    `<` alone could end the element; in JSON it occurs in strings alone.
    """
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def pointing(trials: Sequence[int]) -> dict[str, Any]:
    """Return what makes a trace show trials where the pointer is; the page has what each of them says, once."""
    return {"hovertext": trials, "hoverinfo": "text", "meta": "trials"}


def ticks(axis: Axis, values: Sequence[float]) -> dict[str, Any]:
    """Return the ticks of an axis of numbers, on which these values are drawn."""
    options: dict[str, Any] = {"tickformat": "~g"}
    if axis.log:  # powers of ten, and 2 and 5 where it spans few
        decades = math.log10(max(values) / min(values))
        if decades > 0.69:  # among fewer there may be none of them, and plotly chooses
            options["dtick"] = math.ceil(decades / 4) if decades > 1.5 else "D2"
    if axis.integer_ticks:
        options["dtick"] = max(1, math.ceil(max(values) / TICKS))
    return options


def _plain(value: Any) -> Any:
    """Return a figure's content as plain values, with six digits: a page of a hundred cells must stay small.

    Plotly reads markup in every text that it draws, so texts are escaped.
    """
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return escape(value, quote=False) if isinstance(value, str) else value


def _axis(axis: Axis, values: Sequence[Any] = ()) -> dict[str, Any]:
    if axis.words:
        return {"title": axis.label, "type": "category", "categoryorder": "array", "categoryarray": axis.words}
    options = {"title": axis.label, "range": axis.ends, "zeroline": axis.zero, **ticks(axis, values)}
    return options | {"type": "log"} if axis.log else options


def _trace(series: Series, plot: Plot) -> go.Bar | go.Scatter:
    if series.trials:
        hover = pointing(series.trials)
    else:
        hover = {"hovertext": series.hover, "hoverinfo": "text" if series.hover else "skip"}
    across = bool(plot.y.words)  # bars lie
    intervals = {"error_x" if across else "error_y": _intervals(series, series.x if across else series.y)}
    if series.kind == "bars":
        return go.Bar(
            x=series.x, y=series.y, orientation="h" if across else "v", marker_color=series.colour, **intervals, **hover
        )
    if series.kind == "points":
        marker: dict[str, Any] = {"symbol": _MARKS[series.mark], "color": series.colour, "size": 9}
        if series.mark == "ring":
            marker |= {"size": 15, "line": {"width": 2.5}}
        if plot.scale is not None:
            marker |= {"colorscale": COLOURS, "cmin": plot.scale[1], "cmax": plot.scale[2]}
        counts = {"mode": "markers+text", "textposition": "middle right"} if any(series.counts) else {"mode": "markers"}
        text = [f"\u2002{count}" if count else "" for count in series.counts] if any(series.counts) else None
        # A text may reach beyond the axes, but not one of a point that lies there.
        return go.Scatter(x=series.x, y=series.y, text=text, marker=marker, cliponaxis=False, **counts, **hover)
    line: dict[str, Any] = {"color": series.colour, "width": 1.2 if series.thin else 2.5}
    if series.kind == "steps":
        return go.Scatter(x=series.x, y=series.y, mode="lines", line=line | {"shape": "hv"}, **hover)
    look: dict[str, Any] = {
        "mode": "lines+markers",
        "line": line,
        "marker": {"size": 5 if series.mark == "circle" else 7, "symbol": _MARKS[series.mark]},
        "opacity": 0.6 if series.thin else 1,
    }
    return go.Scatter(x=series.x, y=series.y, **look, **intervals, **hover)


def _intervals(series: Series, values: Sequence[float | str]) -> dict[str, Any] | None:
    if not series.low:
        return None
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - float(value) for high, value in zip(series.high, values, strict=True)],
        "arrayminus": [float(value) - low for low, value in zip(series.low, values, strict=True)],
        "color": FAINT,
    }
