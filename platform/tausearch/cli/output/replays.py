"""What `tausearch runs replay` prints."""

from __future__ import annotations

import statistics

from checked_input.names import counted
from tausearch.presentation import Table, brief, console, numbers, percent, score, terminal_table, text_columns
from tausearch.studies import ReplayComparison


def show_replays(comparison: ReplayComparison) -> None:
    """Print what each setting would have chosen, beside what was recorded."""
    out, recorded, best = console(), comparison.recorded, comparison.recorded.best
    trials = counted(len(recorded.trials), "recorded trial")
    tasks = counted(sum(trial.tasks_done for trial in recorded.trials), comparison.spec.step_noun)
    out.print(
        f"{comparison.spec.name}: {trials}, {tasks}; best is trial {best.number},"
        f" {comparison.spec.words(best)}: {brief(dict(best.hyperparameters), list(comparison.spec.space))}",
        soft_wrap=True,
    )
    if recorded.left_out:
        out.print(f"left out, because their end is unknown: {recorded.left_out}", style="dim")
    out.print(terminal_table(_table(comparison)))
    if comparison.left_out:
        said = ", ".join(f"{scheduler} ({why})" for scheduler, why in comparison.left_out.items())
        out.print(f"without: {said}", style="dim", soft_wrap=True)
    out.print(
        f"{counted(comparison.trials, 'trial')} each; the nearest recorded configuration stands in for the one that is"
        " suggested; distance: between the two, as a share of the ranges",
        style="dim",
        soft_wrap=True,
    )


def _table(comparison: ReplayComparison) -> Table:
    best = comparison.recorded.best
    rows = [
        (
            outcome.algorithm,
            outcome.scheduler,
            outcome.accuracy,
            None if outcome.accuracy is None else comparison.recorded.regret(outcome.accuracy.mean),
            f"{outcome.found(best)} of {len(outcome.replays)}",
            f"{outcome.tasks.mean:.0f}",
            f"{statistics.fmean(each.stopped for each in outcome.replays):.1f}",
            statistics.fmean(each.distance for each in outcome.replays),
        )
        for outcome in comparison.outcomes
    ]
    chosen_by = comparison.spec.aim.metric if comparison.spec.objectives else comparison.spec.value_labels.title
    columns = [
        *text_columns("algorithm", "scheduler"),
        *numbers(f"chosen, {chosen_by}", format=score),
        *numbers("regret", format=percent),
        *numbers("finds the best", f"{comparison.spec.step_noun}s", "stopped"),
        *numbers("distance", format=percent),
    ]
    return Table("", columns, rows)
