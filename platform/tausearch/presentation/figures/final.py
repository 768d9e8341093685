"""Figures of a final run: accuracy over tasks with the spread of its seeds, and its accuracy matrix."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from checked_input.names import counted
from tausearch.presentation.figures.matrix import MOST_NAMED, accuracy_matrix_figure
from tausearch.presentation.figures.style import one_pair_of_axes, plain, run_caption, save_all
from tausearch.presentation.run_tables import mean_rows
from tausearch.runs import RunSpec, TrialSummary


def draw_final(spec: RunSpec, trials: Sequence[TrialSummary], folder: Path) -> list[Path]:
    """Draw the finished seeds of a final run to a folder, which is made; return the PNG files, none without seeds."""
    finished = [trial for trial in trials if trial.status == "complete" and trial.rows]
    if not finished:
        return []
    count = counted(len(finished), spec.trial_noun)
    labels = [task.label for task in spec.tasks]
    matrix = accuracy_matrix_figure(mean_rows(finished), spec.metrics, f"{run_caption(spec)}: mean of {count}", labels)
    over_tasks = _over_tasks(spec, finished, f"{run_caption(spec)}, {count}")
    return save_all({"accuracy": over_tasks, "accuracy_matrix": matrix}, folder)


def _over_tasks(spec: RunSpec, finished: Sequence[TrialSummary], title: str) -> Figure:
    """Draw the average accuracy over the tasks seen, after each task: the mean, its deviation, and each trial."""
    name = spec.metrics.average_accuracy
    tasks = [int(row["task"]) for row in finished[0].rows]
    seeds = [[row[name] for row in trial.rows] for trial in finished]
    by_task = list(zip(*seeds, strict=True))
    mean = [statistics.fmean(values) for values in by_task]
    figure, axes = one_pair_of_axes()
    if len(finished) > 1:
        spread = [statistics.stdev(values) for values in by_task]
        ends = ([m + sign * s for m, s in zip(mean, spread, strict=True)] for sign in (-1, 1))
        low, high = ([min(100.0, max(0.0, end)) for end in line] for line in ends)  # no accuracy lies beyond
        axes.fill_between(tasks, low, high, alpha=0.2, label=f"± standard deviation over {spec.trial_noun}s")
        for number, values in enumerate(seeds):
            axes.plot(tasks, values, color="grey", linewidth=0.7, label=None if number else f"each {spec.trial_noun}")
    axes.plot(tasks, mean, marker="o", label=f"mean over {spec.trial_noun}s")
    if spec.steps == len(spec.tasks) and len(tasks) <= MOST_NAMED:
        axes.set_xticks(tasks, [plain(spec.step_title(task)) for task in tasks], rotation=30, ha="right", fontsize=8)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="after task", ylabel=f"{spec.metrics.prefix} accuracy on tasks seen (%)")
    axes.set_title(plain(title), fontsize=10, wrap=True)
    axes.grid(alpha=0.3)
    if len(finished) > 1:
        axes.legend()
    return figure
