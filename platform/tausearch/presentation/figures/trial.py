"""The picture of one trial, drawn when somebody asks for it: matplotlib takes a second to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tausearch.runs import RunSpec, TrialSummary, shown_benchmark

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_trial(spec: RunSpec, trial: TrialSummary) -> Figure:
    """Draw the accuracy matrix of a trial that has finished a task."""
    from tausearch.presentation.figures.fonts import choose_fonts
    from tausearch.presentation.figures.matrix import accuracy_matrix_figure

    title = f"{spec.method} on {shown_benchmark(spec.benchmark)}, {spec.name}, trial {trial.number}"
    figure = accuracy_matrix_figure(trial.rows, spec.metrics, title, [task.label for task in spec.tasks])
    choose_fonts(figure)
    return figure
