"""The plot of a benchmark's methods: accuracy after every task, described once for figures and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checked_input.names import counted
from tausearch.presentation.plots import LINES, AccuracyAxis, Axis, Facet, Mark, Plot, Series
from tausearch.presentation.run_tables import mean_rows
from tausearch.runs import TrialSummary
from trainables.metrics import TEST

_MARKS: tuple[Mark, ...] = ("circle", "triangle", "cross")
_ROOM = 0.04  # share of the axis below the lowest mark, which is whole then


def accuracy_plot(benchmark: str, methods: Mapping[str, Sequence[TrialSummary]]) -> Plot | None:
    """Return the average accuracy after every task, a line per method; None if no seed finished.

    A method that learns all tasks in one step has a level line: its accuracy is over all tasks. The place of a name in
    `methods`, whose values are the seeds of a final run, chooses colour and mark, also of one without a line.
    """
    finished = {
        name: [trial for trial in trials if trial.status == "complete" and trial.rows]
        for name, trials in methods.items()
    }
    last = max((len(trial.rows) for trials in finished.values() for trial in trials), default=0)
    lines = [_line(number, name, trials, last) for number, (name, trials) in enumerate(finished.items()) if trials]
    if not lines:
        return None
    values = [float(value) for line in lines for value in line.y]
    level = (
        "Level lines: all tasks, learned at once." if any(_level(trials, last) for trials in finished.values()) else ""
    )
    caption = " ".join(filter(None, ["Test accuracy over the tasks seen so far, mean over seeds.", level]))
    ends = "; ".join(f"{line.name} {line.y[-1]:.2f} %" for line in lines)
    low, high = min(values), AccuracyAxis.of(values).high
    return Plot(
        f"{benchmark}: accuracy after every task",
        caption,
        Axis("average accuracy (%)", (low - max(1, _ROOM * (high - low)), high)),
        [Facet(Axis("after task", integer_ticks=True), lines)],
        f"At the end: {ends}.",
    )


def _line(number: int, name: str, trials: Sequence[TrialSummary], last: int) -> Series:
    """Return the line of a method through its last task, or on to task `last` if it learns all tasks in one step."""
    means = mean_rows(trials)
    tasks, values = [row["task"] for row in means], [row[TEST.average_accuracy] for row in means]
    over = counted(len(trials), "seed")
    hover = [f"{name}, after task {task:g}: {value:.2f} % ({over})" for task, value in zip(tasks, values, strict=True)]
    if _level(trials, last):
        tasks, values = [1.0, float(last)], values * 2
        hover = [f"{name}, all tasks at once: {values[0]:.2f} % ({over})"] * 2
    return Series(
        tasks,
        values,
        name,
        kind="line",
        colour=LINES[number % len(LINES)],
        mark=_MARKS[number // len(LINES) % len(_MARKS)],
        hover=hover,
    )


def _level(trials: Sequence[TrialSummary], last: int) -> bool:
    return bool(trials) and len(trials[0].rows) == 1 < last
