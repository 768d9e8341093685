"""Figures of a final run: accuracy over tasks with the spread of its seeds, and its accuracy matrix."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from tausearch.presentation.figures.matrix import accuracy_matrix_figure
from tausearch.presentation.figures.style import caption, one_pair_of_axes, plain, save
from tausearch.runs import RunSpec, TrialSummary


def draw_final(spec: RunSpec, trials: Sequence[TrialSummary], folder: Path) -> list[Path]:
    """Draw the figures of a final run, of the seeds that finished.

    Args:
        spec: The run.
        trials: Its trials, one for each seed.
        folder: The folder to write to; made if missing.

    Returns:
        The paths of the PNG files that were written; none if no seed finished.
    """
    finished = [trial.rows for trial in trials if trial.status == "complete" and trial.rows]
    if not finished:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    count = f"{len(finished)} seed{'s' * (len(finished) > 1)}"
    mean = [_mean(rows) for rows in zip(*finished, strict=True)]
    matrix = accuracy_matrix_figure(mean, spec.metrics, f"{caption(spec)}: mean of {count}")
    over_tasks = _over_tasks(spec, finished, f"{caption(spec)}, {count}")
    return [save(over_tasks, folder / "accuracy.png"), save(matrix, folder / "accuracy_matrix.png")]


def _over_tasks(spec: RunSpec, finished: Sequence[Sequence[dict[str, float]]], title: str) -> Figure:
    """Draw the average accuracy over the tasks seen, after each task: the mean, its deviation, and each seed."""
    name = spec.metrics.average_accuracy
    tasks = [int(row["task"]) for row in finished[0]]
    by_task = list(zip(*([row[name] for row in rows] for rows in finished), strict=True))
    mean = [statistics.fmean(values) for values in by_task]
    figure, axes = one_pair_of_axes()
    if len(finished) > 1:
        spread = [statistics.stdev(values) for values in by_task]
        ends = ([m + sign * s for m, s in zip(mean, spread, strict=True)] for sign in (-1, 1))
        low, high = ([min(100.0, max(0.0, end)) for end in line] for line in ends)  # no accuracy lies beyond
        axes.fill_between(tasks, low, high, alpha=0.2, label="± standard deviation over seeds")
        for number, rows in enumerate(finished):
            label = "each seed" if number == 0 else None
            axes.plot(tasks, [row[name] for row in rows], color="grey", linewidth=0.7, label=label)
    axes.plot(tasks, mean, marker="o", label="mean over seeds")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="after task", ylabel=f"{spec.metrics.prefix} accuracy on tasks seen (%)")
    axes.set_title(plain(title), fontsize=10, wrap=True)
    axes.grid(alpha=0.3)
    if len(finished) > 1:
        axes.legend()
    return figure


def _mean(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of the metrics that all rows have."""
    shared = [name for name in rows[0] if all(name in row for row in rows)]
    return {name: statistics.fmean(row[name] for row in rows) for name in shared}
