"""The tables of a report: plain text in cells, from what runs have recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Protocol

from search_spaces import Choices, Dimension, Scalar
from tausearch.models import UNLEARNING_MODES, CompositionResult, EditResult
from tausearch.presentation import clock, number, percent
from tausearch.runs import RunSpec, RunStatus, Score, TrialSummary
from trainables.metrics import TEST, MetricNames

_READABLE = {
    TEST.final_accuracy: "final accuracy",
    TEST.pooled_accuracy: "accuracy over all images together",
    TEST.forgetting: "forgetting",
}


class AnyTable(Protocol):
    """A titled table of text, such as those of `tausearch compare`."""

    @property
    def title(self) -> str:
        """The text above the table."""
        ...

    @property
    def header(self) -> tuple[str, ...]:
        """The names of the columns."""
        ...

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The rows; each has as many cells as the header."""
        ...


@dataclass(frozen=True)
class Table:
    """A table of the page; satisfies `AnyTable`.

    Attributes:
        title: The text above the table.
        header: The names of the columns.
        rows: The rows; each has as many cells as the header.
        marked: Numbers of the rows that stand out.
        heat: For each cell the accuracy that colours it, percent; None for none. Empty where nothing is coloured.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: frozenset[int] = frozenset()
    heat: tuple[tuple[float | None, ...], ...] = ()


def trials_table(status: RunStatus) -> Table:
    """Return all trials of a search, or all seeds of a final run; the best trial is marked."""
    spec, names = status.spec, status.spec.metrics
    searching = spec.purpose == "search"
    columns = ("status", f"{names.prefix} accuracy", "pooled", "forgetting", "tasks", "time")
    header = ("trial" if searching else "seed", *columns, *spec.space, "error")
    rows = tuple(_trial_row(trial, spec, names, searching) for trial in status.trials)
    best = None if status.best is None or not searching else status.best.number
    marked = frozenset(place for place, trial in enumerate(status.trials) if trial.number == best)
    return _without_empty(Table("trials" if searching else "seeds", header, rows, marked))


def chosen_table(spec: RunSpec, hyperparameters: Mapping[str, Scalar]) -> Table:
    """Return the configuration that a search chose, with what was searched of it; what was searched is marked."""
    rows = [(name, _value(value), _searched(spec.space.get(name))) for name, value in hyperparameters.items()]
    searched = frozenset(place for place, row in enumerate(rows) if row[0] in spec.space)
    return Table("chosen configuration", ("hyperparameter", "value", "searched"), tuple(rows), searched)


def front_table(status: RunStatus) -> Table:
    """Return the trials that no other one beats in accuracy, forgetting and time alike; the chosen one is marked."""
    spec, names = status.spec, status.spec.metrics
    rows = [
        (
            str(trial.number),
            percent(trial.value),
            percent(trial.final.get(names.forgetting)),
            f"{trial.own_seconds:.1f}",
            *(number(trial.hyperparameters.get(name)) for name in spec.space),
        )
        for trial in status.front
    ]
    header = ("trial", f"{names.prefix} accuracy", "forgetting", "own seconds", *spec.space)
    chosen = frozenset(place for place, trial in enumerate(status.front) if trial is status.best)
    return Table("Pareto front of accuracy, forgetting and time", header, tuple(rows), chosen)


def trained_table(spec: RunSpec) -> Table:
    """Return the configuration of a final run."""
    rows = tuple((name, _value(value)) for name, value in spec.fixed.items())
    return Table("trained with", ("hyperparameter", "value"), rows)


def scores_table(scores: Mapping[str, Score]) -> Table:
    """Return the test results of a final run: mean and deviation over its seeds, percent."""
    rows = [(_READABLE.get(name, name), score.text(), str(score.seeds)) for name, score in scores.items()]
    return Table("test results, percent", ("", "mean ± standard deviation", "seeds"), tuple(rows))


def matrix_table(trials: Sequence[TrialSummary], names: MetricNames) -> Table | None:
    """Return the accuracy on each task after each task, mean over trials, with what was forgotten of each.

    What is forgotten of task j is max_{i < T} a[i][j] - a[T][j], mean over trials, as in `trainables.metrics`.

    Args:
        trials: Trials that finished the last task; a row of each per task that it ran.
        names: The names of the accuracies in their rows.

    Returns:
        None without such trials.
    """
    if not trials:
        return None
    steps = range(len(trials[0].rows))
    last = trials[0].rows[-1]
    tasks = [task for task in range(1, len(last)) if names.accuracy(task) in last]
    grid = [[_mean(trials, step, names.accuracy(task)) for task in tasks] for step in steps]
    rows = [
        (str(int(trials[0].rows[step]["task"])), *(percent(value) for value in line)) for step, line in enumerate(grid)
    ]
    heat: list[tuple[float | None, ...]] = [(None, *line) for line in grid]
    if len(steps) > 1:
        rows.append(("forgotten", *(_forgotten(trials, names.accuracy(task)) for task in tasks)))
        heat.append((None,) * (1 + len(tasks)))
    title = f"{names.prefix} accuracy on each task (columns) after each task (rows), percent"
    over = f", mean over {len(trials)} seeds" if len(trials) > 1 else ""
    return Table(title + over, ("after task", *map(str, tasks)), tuple(rows), heat=tuple(heat))


def composition_table(results: Sequence[CompositionResult]) -> Table:
    """Return what compositions of task vectors reach on the test images of each task, percent."""
    tasks = max(len(result.weights) for result in results)
    rows = []
    for result in results:
        scores = result.summary()
        each = (
            scores[TEST.accuracy(task)].text() if task <= len(result.weights) else "" for task in range(1, tasks + 1)
        )
        rule = result.rule if result.density is None else f"{result.rule}, density {result.density:g}"
        rows.append((result.label, rule, scores[TEST.final_accuracy].text(), *each))
    header = ("composition", "rule", "mean over tasks", *(f"task {task}" for task in range(1, tasks + 1)))
    return Table("compositions of task vectors, test accuracy in percent", header, tuple(rows))


def edit_table(result: EditResult) -> Table:
    """Return specialisation and unlearning by the paper's protocol, test accuracy in percent."""
    parts = ("target", "target_gain", "control", "control_gain")
    kept = f"specialised on tasks {', '.join(map(str, result.kept))}"
    summaries = {kept: result.specialisation()}
    summaries |= {f"unlearned, {reading}": result.unlearning(reading) for reading in UNLEARNING_MODES}
    rows = [
        (name, *(scores[part].text("+" if part.endswith("gain") else "") if part in scores else "" for part in parts))
        for name, scores in summaries.items()
    ]
    header = ("", "these tasks", "gain", "the others", "gain of the others")
    return Table("specialisation and unlearning, test accuracy in percent", header, tuple(rows))


def _trial_row(trial: TrialSummary, spec: RunSpec, names: MetricNames, searching: bool) -> tuple[str, ...]:
    return (
        str(trial.number if searching else trial.seed),
        trial.status,
        percent(trial.value),
        percent(trial.final.get(names.pooled_accuracy)),
        percent(trial.final.get(names.forgetting)),
        f"{trial.tasks_done}/{spec.steps}",
        clock(trial.seconds),
        *(number(trial.hyperparameters.get(name)) for name in spec.space),
        trial.error or "",
    )


def _without_empty(table: Table) -> Table:
    """Leave out columns that are empty in every row: an error of no trial, a metric that older versions lack."""
    kept = [place for place in range(len(table.header)) if any(row[place] for row in table.rows)]
    rows = tuple(tuple(row[place] for place in kept) for row in table.rows)
    return Table(table.title, tuple(table.header[place] for place in kept), rows, table.marked)


def _value(value: Scalar) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _searched(dimension: Dimension | None) -> str:
    if dimension is None:
        return "fixed"
    if isinstance(dimension, Choices):
        return ", ".join(map(str, dimension.choices))
    return f"{dimension.low:g} to {dimension.high:g}{', logarithmic' if dimension.log else ''}"


def _mean(trials: Sequence[TrialSummary], step: int, name: str) -> float | None:
    values = [trial.rows[step][name] for trial in trials if name in trial.rows[step]]
    return fmean(values) if values else None


def _forgotten(trials: Sequence[TrialSummary], name: str) -> str:
    """Return what is forgotten of a task, mean over trials; nothing for the last task, which nothing came after."""
    drops = []
    for trial in trials:
        seen = [row[name] for row in trial.rows if name in row]
        if len(seen) > 1:
            drops.append(max(seen[:-1]) - seen[-1])
    return f"{fmean(drops):.2f}" if drops else ""
