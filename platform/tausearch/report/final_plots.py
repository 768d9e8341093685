"""The plot of a final run: where its time went."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import plotly.graph_objects as go

from tausearch.presentation import clock
from tausearch.report.plots import ACCENT, BEST, FAINT, Plot, hovering, make_plot
from tausearch.runs import TrialSummary
from trainables.metrics import STAGES, seconds

_COLOURS = dict(zip(STAGES, (BEST, ACCENT, FAINT), strict=True))


def time_plot(trials: Sequence[TrialSummary]) -> Plot | None:
    """Return seconds per task and stage, mean over trials.

    Args:
        trials: Trials that finished the last task, with a row per task.

    Returns:
        None where no time was recorded.
    """
    times = {stage: _means(trials, seconds(stage)) for stage in STAGES}
    shown = {stage: found for stage, found in times.items() if any(found)}
    if not shown:
        return None
    tasks = [int(row["task"]) for row in trials[0].rows]
    figure = go.Figure(
        [
            go.Bar(
                x=tasks,
                y=found,
                name=stage,
                marker={"color": _COLOURS[stage]},
                **hovering([f"task {task}, {stage}: {value:.1f} s" for task, value in zip(tasks, found, strict=True)]),
            )
            for stage, found in shown.items()
        ]
    )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(title="task", dtick=max(1, math.ceil(len(tasks) / 10)))
    figure.update_yaxes(title="seconds", rangemode="tozero")
    parts = ", ".join(f"{stage} {clock(sum(found))}" for stage, found in shown.items())
    each = "a seed, mean over seeds" if len(trials) > 1 else "the seed"
    return make_plot(figure, "Time per task and stage", f"Of {each}: {parts} (minutes:seconds).", height=260)


def _means(trials: Sequence[TrialSummary], name: str) -> list[float]:
    return [fmean(trial.rows[step].get(name, 0.0) for trial in trials) for step in range(len(trials[0].rows))]
