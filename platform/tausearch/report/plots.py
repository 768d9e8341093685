"""Plots of a report: plotly figures as JSON, with the words that stand for them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any

import numpy as np
import plotly.graph_objects as go

ACCENT, BEST, FAINT = "#3f83c8", "#d9730d", "#8b929c"  # each can be told from a white page and from a dark one
SCALE = [[0, "#6c7fd8"], [0.5, "#3fa796"], [1, "#e0a526"]]  # so can all colours of this scale


@dataclass(frozen=True)
class Plot:
    """A plot of the page.

    Attributes:
        title: Its heading.
        text: What it shows, with the main numbers: the caption, and what a screen reader says.
        figure: The plotly figure, as JSON that can stand in a script element.
        height: Pixels.
    """

    title: str
    text: str
    figure: str
    height: int


def make_plot(figure: go.Figure, title: str, text: str, height: int = 300) -> Plot:
    """Return a figure as a plot of the page, in the look that all of them share.

    Colours of text and lines are left to the page's style sheet, which knows the reader's colour scheme.

    Args:
        figure: The figure; its title is taken off, because the page has it as a heading.
        title: See `Plot`; names in it are escaped, as they are in the figure.
        text: See `Plot`; the same.
        height: See `Plot`.
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
    figure.update_xaxes(automargin=True, zeroline=False, gridcolor=FAINT, title_standoff=8)
    figure.update_yaxes(automargin=True, zeroline=False, gridcolor=FAINT, title_standoff=8)
    return Plot(unescape(title), unescape(text), script_json(_plain(figure.to_plotly_json())), height)


def script_json(content: Any) -> str:
    """Return plain values as JSON that can stand in a script element.

    `<` alone could end the element; in JSON it occurs in strings alone.
    """
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def _plain(value: Any) -> Any:
    """Return a figure's content as plain values, with six digits: a page of a hundred cells must stay small."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def hovering(texts: str | Sequence[str]) -> dict[str, Any]:
    """Return what makes a trace show these texts, and nothing else, where the pointer is."""
    return {"hovertext": texts, "hoverinfo": "text"}


def pointing(trials: int | Sequence[int]) -> dict[str, Any]:
    """Return what makes a trace show trials where the pointer is; the page has what each of them says, once."""
    return {"hovertext": trials, "hoverinfo": "text", "meta": "trials"}


def ticks(values: Sequence[float], *, log: bool) -> dict[str, Any]:
    """Return options of an axis of numbers: on a logarithmic one powers of ten, and 2 and 5 where it spans few."""
    if not log:
        return {"tickformat": "~g"}
    decades = math.log10(max(values) / min(values))
    return {"tickformat": "~g", "dtick": math.ceil(decades / 4) if decades > 1.5 else "D2"}
