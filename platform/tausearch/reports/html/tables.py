"""The tables that only a report has; those of trials are in `presentation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from checked_input.names import counted
from search_spaces import Choices, Dimension, Scalar
from tausearch.models import CompositionResult, rule_words
from tausearch.presentation import Column, Table, accuracy_cells, emphasise, mean_rows, numbers, percent, score
from tausearch.runs import RunSpec, Score, SearchSpec, TrialSummary
from trainables.metrics import TEST
from trainables.task_names import titles


def chosen_table(spec: RunSpec, hyperparameters: Mapping[str, Scalar]) -> Table:
    """Return the configuration that a search chose; searched hyperparameters are marked."""
    columns = [Column("hyperparameter"), *numbers("value", format=_value), Column("searched")]
    by_grid = isinstance(spec, SearchSpec) and spec.algorithm == "grid"
    searched_as = {name: _searched_text(dimension, by_grid) for name, dimension in spec.dimensions.items()}
    rows = [(name, value, searched_as.get(name, "fixed")) for name, value in hyperparameters.items()]
    searched = emphasise(place for place, name in enumerate(hyperparameters) if name in spec.dimensions)
    return Table("chosen configuration", columns, rows, searched)


def trained_table(spec: RunSpec) -> Table:
    """Return the configuration of a final run."""
    columns = [Column("hyperparameter"), *numbers("value", format=_value)]
    return Table("trained with", columns, list(spec.fixed.items()))


def task_accuracy_table(spec: RunSpec, trials: Sequence[TrialSummary]) -> Table:
    """Return the accuracy on each task after each task and the forgetting of each task, mean over finished trials.

    The forgetting of task j is max_{i < T} a[i][j] - a[T][j], as in `trainables.metrics`.
    """
    names, means = spec.metrics, mean_rows(trials)
    cells = accuracy_cells(means, names)
    tasks = range(1, len(cells[0]) + 1)
    columns = [Column("after task"), *(Column(spec.task_title(task), percent, right=True, heat=True) for task in tasks)]
    rows: list[tuple[object, ...]] = [
        (spec.step_title(int(row["task"])), *line) for row, line in zip(means, cells, strict=True)
    ]
    if len(means) > 1:
        rows.append(("forgetting", *(_forgetting_text(trials, names.accuracy(task)) for task in tasks)))
    over = f", mean over {counted(len(trials), spec.trial_noun)}" if len(trials) > 1 else ""
    title = f"{names.prefix} accuracy on each task (columns) after each task (rows), percent{over}"
    return Table(title, columns, rows)


def composition_tables(results: Sequence[CompositionResult]) -> list[Table]:
    """Return the test accuracy of compositions over all classes, and apart those over fewer; none for neither."""
    whole, fewer = ([each for each in results if (each.removal is None) == all_there] for all_there in (True, False))
    return [*([_whole_table(whole)] if whole else []), *([_fewer_table(fewer)] if fewer else [])]


def _fewer_table(results: Sequence[CompositionResult]) -> Table:
    """Return the test accuracy where classes were taken out, of each on the images and classes that it has left."""
    removals = [(each, each.removal) for each in results if each.removal is not None]
    tasks = sorted({task for each in results for task in each.tasks})
    columns = [
        *(Column("composition"), Column("rule"), Column("seeds")),
        *numbers("classes left"),
        *numbers("the run on their images", "mean over tasks", *(f"task {task}" for task in tasks), format=score),
    ]
    rows = []
    for result, removal in removals:
        scores = result.summary()
        before = Score.of([fmean(seed) for seed in removal.before])
        left = sum(map(len, result.task_classes)) or None
        rule = rule_words(result.rule, result.rule_parameters)
        each = (scores.get(TEST.accuracy(task)) for task in tasks)
        rows.append((result.title, rule, _seeds(result), left, before, scores[TEST.final_accuracy], *each))
    title = "compositions without some classes, test accuracy in percent over the classes left: rows do not compare"
    return Table(title, columns, rows)


def _whole_table(results: Sequence[CompositionResult]) -> Table:
    tasks = range(1, 1 + max(len(result.weights) for result in results))
    names = max((result.task_names for result in results), key=len)
    columns = [
        *(Column("composition"), Column("rule"), Column("seeds")),
        *numbers("mean over tasks", *(f"task {title}" for title in titles(names, len(tasks))), format=score),
    ]
    rows = []
    for result in results:
        scores = result.summary()
        rule = rule_words(result.rule, result.rule_parameters)
        each = (scores[TEST.accuracy(task)] if task <= len(result.weights) else None for task in tasks)
        rows.append((result.title, rule, _seeds(result), scores[TEST.final_accuracy], *each))
    return Table("compositions of task vectors, test accuracy in percent over all classes", columns, rows)


def _seeds(result: CompositionResult) -> str:
    """Return the composed seeds; a run that got more of them since has rows over fewer."""
    return ", ".join(map(str, result.seeds))


def _value(value: Scalar) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _searched_text(dimension: Dimension, by_grid: bool) -> str:
    if by_grid or isinstance(dimension, Choices):
        return ", ".join(map(_value, dimension.grid))
    return f"{dimension.low:g} to {dimension.high:g}{', logarithmic' if dimension.log else ''}"


def _forgetting_text(trials: Sequence[TrialSummary], name: str) -> str:
    """Return the forgetting of a task as text, which takes no colour; empty for the last task."""
    drops = []
    for trial in trials:
        seen = [row[name] for row in trial.rows if name in row]
        if len(seen) > 1:
            drops.append(max(seen[:-1]) - seen[-1])
    return percent(fmean(drops) if drops else None)
