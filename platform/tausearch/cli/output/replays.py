"""What `tausearch replay` prints."""

from __future__ import annotations

import statistics

from rich.table import Table

from tausearch.presentation import brief, console, counted, percent, print_json
from tausearch.studies import Comparison, Outcome


def show_replays(comparison: Comparison, json: bool) -> None:
    """Print what each setting would have chosen, beside what was recorded."""
    if json:
        print_json(comparison.as_dict())
        return
    out, recorded, best = console(), comparison.recorded, comparison.recorded.best
    trials = counted(len(recorded.trials), "recorded trial")
    tasks = counted(sum(trial.tasks_done for trial in recorded.trials), "task")
    out.print(
        f"{comparison.spec.name}: {trials}, {tasks}; best is trial {best.number},"
        f" {percent(best.value)} %: {brief(dict(best.hyperparameters), list(comparison.spec.space))}",
        soft_wrap=True,
    )
    if recorded.left_out:
        out.print(f"left out, because how they would have ended is not known: {recorded.left_out}", style="dim")
    out.print(_table(comparison))
    out.print(
        f"{counted(comparison.trials, 'trial')} each, the nearest recorded configuration in the place of what is asked"
        " for; distance: how far that is, as a share of the ranges",
        style="dim",
        soft_wrap=True,
    )


def _table(comparison: Comparison) -> Table:
    table = Table()
    for column in ("algorithm", "scheduler"):
        table.add_column(column)
    for column in ("chosen, val accuracy", "regret", "finds the best", "tasks", "stopped", "distance"):
        table.add_column(column, justify="right")
    for outcome in comparison.outcomes:
        table.add_row(outcome.algorithm, outcome.scheduler, *_cells(outcome, comparison))
    return table


def _cells(outcome: Outcome, comparison: Comparison) -> tuple[str, ...]:
    best, count, accuracy = comparison.recorded.best, len(outcome.replays), outcome.accuracy
    return (
        "" if accuracy is None else accuracy.text(),
        "" if accuracy is None else f"{(best.value or 0.0) - accuracy.mean:.2f}",
        f"{outcome.found(best)} of {count}",
        f"{outcome.tasks.mean:.0f}",
        f"{statistics.fmean(each.stopped for each in outcome.replays):.1f}",
        f"{statistics.fmean(each.distance for each in outcome.replays):.2f}",
    )
