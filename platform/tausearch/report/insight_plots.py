"""Plots of what a search teaches: what accuracy costs, what mattered, and how far early accuracies can be trusted."""

from __future__ import annotations

import math

import plotly.graph_objects as go

from tausearch.presentation import AccuracyAxis
from tausearch.report.plots import ACCENT, BEST, FAINT, SCALE, Plot, hovering, make_plot, pointing
from tausearch.report.searched import Searched
from tausearch.runs import correlation_interval


def front_plot(searched: Searched) -> Plot:
    """Return accuracy over forgetting, coloured by time, of a search with finished trials; its Pareto front ringed."""
    on_front = {trial.number for trial in searched.front}
    axis = AccuracyAxis.of([trial.value or 0.0 for trial in searched.finished])
    shown = [trial for trial in searched.finished if (trial.value or 0.0) >= axis.floor]
    colour = {
        "color": [trial.own_seconds for trial in shown],
        "colorscale": SCALE,
        "colorbar": {"title": "s", "thickness": 12},
    }
    rings = [{True: BEST, False: "rgba(0,0,0,0)"}[trial.number in on_front] for trial in shown]
    points = go.Scatter(
        x=[trial.forgetting for trial in shown],
        y=[trial.value for trial in shown],
        mode="markers",
        marker={**colour, "size": 10, "line": {"color": rings, "width": 2.5}},
        **pointing([trial.number for trial in shown]),
    )
    figure = go.Figure(points)
    figure.update_xaxes(title="forgetting (points)")
    figure.update_yaxes(title="final accuracy (%)", range=axis.range)
    names = ", ".join(str(trial.number) for trial in searched.front)
    text = (
        "Final accuracy, forgetting and time (colour) of the finished trials. Ringed: those that no other beats in"
        f" all three, the Pareto front, the most accurate first: {names}."
    )
    return make_plot(figure, "What accuracy costs", text)


def importances_plot(searched: Searched) -> Plot:
    """Return the importances of a search that has some, with their intervals."""
    found = searched.importances
    names = list(found)[::-1]
    bars = go.Bar(
        y=names,
        x=[found[name].share for name in names],
        orientation="h",
        marker={"color": ACCENT},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [found[name].high - found[name].share for name in names],
            "arrayminus": [found[name].share - found[name].low for name in names],
            "color": FAINT,
        },
        **hovering([f"{name}: {found[name].text()}" for name in names]),
    )
    figure = go.Figure(bars)
    figure.update_xaxes(range=[0, 1.02], title="share")
    figure.update_yaxes(type="category")
    shares = "; ".join(f"{name} {each.text()}" for name, each in found.items())
    text = f"What sets the best trials apart (PED-ANOVA), with 90 % intervals over resampled trials: {shares}."
    return make_plot(figure, "Importances", text, height=90 + 34 * len(names))


def trust_plot(searched: Searched) -> Plot:
    """Return the rank correlations of a search that has some."""
    found, finished = searched.correlations, len(searched.finished)
    between = {k: correlation_interval(value, finished) for k, value in found.items()}
    line = go.Scatter(
        x=list(found),
        y=list(found.values()),
        mode="lines+markers",
        line={"color": ACCENT},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [between[k][1] - value for k, value in found.items()],
            "arrayminus": [value - between[k][0] for k, value in found.items()],
            "color": FAINT,
        },
        **hovering([f"after task {k}: {found[k]:.2f} ({low:.2f} to {high:.2f})" for k, (low, high) in between.items()]),
    )
    figure = go.Figure(line)
    figure.update_xaxes(title="after task", dtick=max(1, math.ceil(searched.spec.steps / 10)))
    figure.update_yaxes(title="rank correlation", range=[-1.05, 1.05])
    values = ", ".join(f"{k}: {value:.2f}" for k, value in found.items())
    text = (
        "How far the order of trials after task k tells their order at the end (Spearman's rank correlation, over"
        f" {finished} finished trials, with 95 % intervals): {values}. Near 1, stopping early can be trusted;"
        " near 0, not."
    )
    return make_plot(figure, "Early stopping's trust", text, height=260)
