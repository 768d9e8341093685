"""The plot of a benchmark's methods: accuracy after every task, described once for figures and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tausearch.presentation.plots import LINES, AccuracyAxis, Axis, Facet, Mark, Plot, Series
from tausearch.presentation.run_tables import mean_rows
from tausearch.presentation.terminal.text import counted
from tausearch.runs import TrialSummary
from trainables.metrics import TEST

_MARKS: tuple[Mark, ...] = ("circle", "triangle", "cross")


def accuracy_plot(benchmark: str, methods: Mapping[str, Sequence[TrialSummary]], note: str = "") -> Plot | None:
    """Return the average accuracy after every task, a line per method; None if no seed finished.

    Args:
        benchmark: The benchmark as people read it.
        methods: Name of a line to the seeds of its final run; only finished ones count.
        note: What sets lines apart, after the caption.
    """
    finished = {
        name: [trial for trial in trials if trial.status == "complete" and trial.rows]
        for name, trials in methods.items()
    }
    lines = []
    for number, (name, trials) in enumerate((name, trials) for name, trials in finished.items() if trials):
        means = mean_rows(trials)
        tasks, values = [row["task"] for row in means], [row[TEST.average_accuracy] for row in means]
        over = counted(len(trials), "seed")
        lines.append(
            Series(
                tasks,
                values,
                name,
                kind="line",
                colour=LINES[number % len(LINES)],
                mark=_MARKS[number // len(LINES) % len(_MARKS)],
                hover=[
                    f"{name}, after task {task:g}: {value:.2f} % ({over})"
                    for task, value in zip(tasks, values, strict=True)
                ],
            )
        )
    if not lines:
        return None
    values = [float(value) for line in lines for value in line.y]
    caption = " ".join(filter(None, ["Test accuracy over the tasks seen so far, mean over seeds.", note]))
    ends = "; ".join(f"{line.name} {line.y[-1]:.2f} %" for line in lines)
    axis = AccuracyAxis.of(values)
    return Plot(
        f"{benchmark}: accuracy after every task",
        caption,
        Axis("average accuracy (%)", (min(values) - 1, axis.high)),
        [Facet(Axis("after task", whole=True), lines)],
        f"At the end: {ends}.",
    )
