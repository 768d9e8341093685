"""How far runs are, for people: all of them, or one with its trials."""

from __future__ import annotations

from collections.abc import Sequence

from checked_input.names import counted
from tausearch import campaigns
from tausearch.cli.output.run_lines import (
    Lines,
    nothing_chosen,
    show_errors,
    show_front,
    show_gain,
    show_left_out,
    show_settings,
    show_trials,
    show_trust,
)
from tausearch.presentation import (
    Column,
    Table,
    bounds_line,
    brief,
    console,
    numbers,
    percent,
    score,
    terminal_table,
    text_columns,
)
from tausearch.runs import MIN_FINISHED_TRIALS, BesideBounds, EarlyChoice, RunStatus, Score, SearchSpec, Storage

_NAMED_CELLS = 6  # of a campaign, in a line
_BESIDE_NAME = 40  # letters of a line that the state, trials and best of a run take, and the borders
_LEAST_NAME = 12  # letters of a run's name in a line


def show_starting(statuses: Sequence[campaigns.CampaignStatus]) -> None:
    """Print a line for each campaign that has no run yet, with the cells that wait."""
    for each in statuses:
        titles = [cell.runs.title for cell in each.cells]
        more = f" and {len(titles) - _NAMED_CELLS} more" if len(titles) > _NAMED_CELLS else ""
        waiting = f"{counted(len(titles), 'cell')} waiting: {', '.join(titles[:_NAMED_CELLS])}{more}"
        console().print(f"campaign {each.name}: starting; {waiting}", soft_wrap=True)


def show_no_runs(root: Storage) -> None:
    """Say that a storage root has no runs: it may be mistyped."""
    console().print(f"no runs in {root.root} yet", soft_wrap=True)


def show_statuses(statuses: Sequence[RunStatus]) -> None:
    """Print one line per run."""
    columns = [
        *text_columns("run"),
        *(Column(name, wrap=True, minor=True) for name in ("purpose", "benchmark", "method")),
        *text_columns("state", "trials", "best"),
        *(Column(name, wrap=True, minor=True) for name in ("hyperparameters", "note")),
    ]
    rows = [
        (
            found.spec.name,
            found.spec.purpose,
            found.spec.benchmark,
            found.spec.method,
            found.state,
            ", ".join([f"{found.n_ended}/{found.planned}", *_lost(found)]),
            _best_cell(found),
            None if found.best is None else brief(dict(found.best.hyperparameters), list(found.spec.dimensions)),
            found.note,
        )
        for found in statuses
    ]
    table = terminal_table(Table("", columns, rows).without_empty("note"))
    out, longest = console(), max(len(name) for name in ("run", *(found.spec.name for found in statuses)))
    table.columns[0].width = min(longest, max(out.width - _BESIDE_NAME, _LEAST_NAME))  # whole, for people to copy
    out.print(table)


def _lost(found: RunStatus) -> list[str]:
    return [f"{found.counts[each]} {each}" for each in ("failed", "diverged") if found.counts[each]]


def show_status(found: RunStatus, beside: BesideBounds | None = None, go_on: str | None = None) -> None:
    """Print one run with its trials, beside its bounds, and the command that continues it where there is one."""
    lines = Lines(console(), 14)
    counts = ", ".join(f"{count} {name}" for name, count in found.counts.items() if count)
    begun = sum(trial.status == "pending" for trial in found.trials)
    waiting = found.counts["pending"] - begun
    not_begun = f" ({waiting} not begun)" if begun and waiting else ""
    lines.out.print(f"{found.spec.name}: {found.state}; {counts}{not_begun}")
    if found.note:
        lines.out.print(f"note: {found.note}", soft_wrap=True)
    best = None if found.best is None else found.best.number
    if found.trials:
        show_trials(lines, found.spec, found.trials, best)
    else:
        lines.out.print(
            f"{found.spec.method} on {found.spec.benchmark}: no {found.spec.role} has begun", soft_wrap=True
        )
    show_settings(lines, found.spec, found.trials)
    lines.say("bounds", beside and bounds_line(beside))
    if found.spec.purpose == "search":
        lines.say("ended", found.ending)
        show_gain(lines, found.spec, found.trials, found.reevaluation)
        if found.best is None and found.counts["complete"]:
            lines.warn(nothing_chosen(found.spec, found.trials))
        show_left_out(lines, found.spec, found.trials)
        show_front(lines, found.spec, found.trials, best)
        show_trust(lines, found.spec, found.trials, found.rank_correlations)
    show_errors(lines, found.spec, found.trials)
    if go_on is not None:
        lines.out.print(f"go on: {go_on}", soft_wrap=True)


def _best_cell(found: RunStatus) -> str | None:
    """Return a run's accuracy, percent; where trials are chosen by another value, that with its unit."""
    value = found.accuracy if found.score is None else found.score
    if value is None or isinstance(value, Score) or found.spec.value_labels.unit == "%":
        return None if value is None else score(value)
    return found.spec.value_text(value)


def show_early_choices(found: RunStatus, choices: Sequence[EarlyChoice]) -> None:
    """Print what searches that look at the first tasks alone would have chosen."""
    out, steps = console(), f"{found.spec.step_noun}s"
    if not choices:
        bounds = isinstance(found.spec, SearchSpec) and found.spec.constraints
        kept = " that keep all constraints" if bounds else ""
        needed = f"it takes {MIN_FINISHED_TRIALS} finished trials{kept}"
        out.print(f"what first {steps} would have chosen: not known, {needed}")
        return
    columns = [
        *numbers(steps, "trial"),
        *numbers("accuracy after them", found.spec.value_labels.caption.lower(), "lost", format=percent),
        *numbers(f"rank of {choices[0].finished}"),
        *text_columns("hyperparameters"),
    ]
    best, by_number = max(each.value for each in choices), {trial.number: trial for trial in found.trials}
    rows = []
    for each in choices:
        values = brief(dict(by_number[each.trial].hyperparameters), list(found.spec.dimensions))
        rows.append((each.tasks, each.trial, each.accuracy, each.value, best - each.value, each.rank, values))
    out.print(terminal_table(Table(f"{found.spec.name}: chosen by the first {steps}", columns, rows)))
    if stopped := found.counts["pruned"]:
        out.print(f"{counted(stopped, 'trial')} stopped early, out of the competition", style="dim")
