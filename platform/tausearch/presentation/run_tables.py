"""Tables of a run's trials."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from tausearch.presentation.tables import Column, Table, emphasise, numbers, score
from tausearch.presentation.terminal.text import clock, percent
from tausearch.runs import (
    Aim,
    LeaveOneOut,
    MultiSearchSpec,
    MultiTrial,
    Objective,
    Reevaluation,
    RunSpec,
    Score,
    SearchSpec,
    TrialSummary,
)
from trainables.metrics import TEST, MetricNames

_READABLE = {
    TEST.final_accuracy: "final accuracy",
    TEST.average_incremental_accuracy: "average incremental accuracy",
    TEST.pooled_accuracy: "accuracy over all images together",
    TEST.forgetting: "forgetting",
}


def trials_table(spec: RunSpec, trials: Sequence[TrialSummary], best: int | None) -> Table:
    """Return the trials of a search, the best one marked, or the seeds of a final run; unfinished trials are faint."""
    metrics, searching = spec.metrics, spec.purpose == "search"
    aims = _further_objectives(spec)
    ordered = not searching and spec.protocol.class_orders is not None
    several = spec.titles if isinstance(spec, MultiSearchSpec) else ()
    means = {} if several else {"incremental": metrics.average_incremental_accuracy, "pooled": metrics.pooled_accuracy}
    columns = [
        *numbers(*["class order"] * ordered, "trial" if searching else "seed"),
        Column("status"),
        *numbers(spec.value_labels.title, *several, *means, "forgetting", format=percent),
        *_objective_columns(aims),
        *numbers(f"{spec.step_noun}s"),
        *numbers("time", format=clock),
        *numbers(*spec.dimensions),
        Column("error", wrap=True),
    ]
    rows = [
        (
            *[spec.class_order(trial.number)] * ordered,
            trial.number if searching else trial.seed,
            trial.status,
            trial.value,
            *(trial.accuracies if isinstance(trial, MultiTrial) else ()),
            *(trial.final.get(name) for name in means.values()),
            trial.final.get(metrics.forgetting),
            *(each.value(trial) for each in aims),
            f"{trial.tasks_done}/{spec.steps}",
            trial.seconds,
            *(trial.hyperparameters.get(name) for name in spec.dimensions),
            trial.error,
        )
        for trial in trials
    ]
    emphasis = emphasise((n for n, trial in enumerate(trials) if trial.status != "complete"), "faint")
    emphasis |= emphasise(n for n, trial in enumerate(trials) if searching and trial.number == best)
    return Table("trials" if searching else "seeds", columns, rows, emphasis)


def _further_objectives(spec: RunSpec) -> list[Objective]:
    """Return the objectives of a search that are not among the usual columns."""
    names = spec.metrics
    usual = {names.final_accuracy, names.pooled_accuracy, names.forgetting, names.average_incremental_accuracy}
    return [each for each in spec.objectives if each.metric not in usual] if isinstance(spec, SearchSpec) else []


def _objective_columns(objectives: Sequence[Objective], prefix: str = "") -> list[Column]:
    return [column for each in objectives for column in numbers(f"{prefix}{each.name}", format=each.number)]


def scores_table(spec: RunSpec, scores: Mapping[str, Score]) -> Table:
    """Return the test results of a final run over its seeds, percent."""
    columns = [Column(""), *numbers("mean ± standard deviation", format=score), *numbers(f"{spec.trial_noun}s")]
    rows = [(_READABLE.get(name, name), each, each.seeds) for name, each in scores.items()]
    return Table("test results, percent", columns, rows)


def front_table(spec: SearchSpec, front: Sequence[TrialSummary], best: int | None) -> Table:
    """Return the trials of a front with their values in the objectives; the best one is marked."""
    several = spec.objectives if len(spec.objectives) > 1 else ()
    shown = [each for each in several if each.metric != spec.metrics.final_accuracy]
    usual = () if several else ("forgetting",)
    timed = any(each.name == "seconds" for each in several)
    columns = [
        *numbers("trial"),
        *numbers(spec.value_labels.title, *usual, format=percent),
        *_objective_columns(shown),
        *numbers(*["own seconds"] * (not timed), format="{:.1f}".format),
        *numbers(*spec.dimensions),
    ]
    rows = [
        (
            trial.number,
            trial.value,
            *(trial.final.get(spec.metrics.forgetting) for _ in usual),
            *(each.value(trial) for each in shown),
            *[trial.own_seconds] * (not timed),
            *(trial.hyperparameters.get(name) for name in spec.dimensions),
        )
        for trial in front
    ]
    chosen = emphasise(place for place, trial in enumerate(front) if trial.number == best)
    aims = " and ".join(each.name for each in several) or "accuracy and forgetting"
    return Table(f"Pareto front of {aims}", columns, rows, chosen)


def leave_one_out_table(found: Sequence[LeaveOneOut]) -> Table:
    """Return the accuracy on each benchmark of the configuration that was chosen on the others."""
    columns = [
        Column("benchmark"),
        *numbers("start", "chosen on the others", "chosen here", "lost", format=percent),
        *numbers("trials"),
    ]
    rows = [
        (each.title, each.start, each.accuracy, each.best, each.lost, f"{each.trial}, {each.best_trial}")
        for each in found
    ]
    return Table("each benchmark left out: chosen on the others, judged here by validation accuracy", columns, rows)


def reevaluation_table(reevaluation: Reevaluation) -> Table:
    """Return the accuracy of every candidate in every round; the chosen candidate is marked."""
    seeds = (f"seed {seed}" for seed in reevaluation.seeds)
    aim = reevaluation.spec.search.aim
    others = [each for each in aim.objectives if each != aim.chosen_by]
    form = percent if aim.chosen_by is None else aim.chosen_by.number
    columns = [
        *numbers("trial"),
        *numbers(*seeds, "mean", format=form),
        *_objective_columns(others, "mean "),
        Column("", wrap=True),
    ]
    rows = []
    for candidate in reevaluation.race.candidates:
        values = reevaluation.values(candidate)
        missing = [None] * (reevaluation.race.rounds - len(values))
        mean = statistics.fmean(values) if values else None
        aimed = (reevaluation.means(candidate).get(each.metric) for each in others)
        rows.append((candidate, *values, *missing, mean, *aimed, reevaluation.state_of(candidate)))
    title = "fresh runs" if not aim.objectives else f"fresh runs, {_of_what(aim)}"
    return Table(title, columns, rows, emphasise(n for n, row in enumerate(rows) if row[-1] == "chosen"))


def _of_what(aim: Aim) -> str:
    if aim.chosen_by is not None:
        return aim.chosen_by.label
    return "score of the knee (0: best in every objective)"


def mean_rows(trials: Sequence[TrialSummary]) -> list[dict[str, float]]:
    """Return the metrics row after each task, mean over trials with equally many tasks; only metrics that all have."""
    means = []
    for rows in zip(*(trial.rows for trial in trials), strict=True):
        shared = [name for name in rows[0] if all(name in row for row in rows)]
        means.append({name: statistics.fmean(row[name] for row in rows) for name in shared})
    return means


def accuracy_cells(rows: Sequence[Mapping[str, float]], metric_names: MetricNames) -> list[list[float | None]]:
    """Return the accuracy matrix: a line per metrics row, a column per task; None before the task was learned."""
    tasks = 1
    while any(metric_names.accuracy(tasks + 1) in row for row in rows):
        tasks += 1
    return [[row.get(metric_names.accuracy(task)) for task in range(1, tasks + 1)] for row in rows]
