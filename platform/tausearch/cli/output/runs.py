"""Runs and their trials as tables for people, and as plain values for programs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tausearch.cli.output.reevaluations import reevaluated_words, show_reevaluation
from tausearch.presentation import (
    Column,
    Table,
    brief,
    code_words,
    console,
    counted,
    front_table,
    numbers,
    percent,
    score,
    terminal_table,
    tool,
    trials_table,
    words,
)
from tausearch.runs import (
    ENOUGH,
    AnySpec,
    FinalSpec,
    MetricSummary,
    ProtocolChoice,
    Reevaluation,
    RunResult,
    RunSpec,
    RunStatus,
    SearchSpec,
    TrialSummary,
    best_trial,
    chosen_trial,
    correlation_interval,
    pareto_front,
    rank_correlations,
    summarise_orders,
    why_nothing_chosen,
)

if TYPE_CHECKING:  # torch and Ray take seconds to import; to show what runs left must not
    from tausearch.api import FinalResult, SearchResult

_LONGEST_FRONT = 10  # trials that a terminal shows
_MUCH_FORGOTTEN = 50.0  # percentage points


def trials_as_dicts(trials: Sequence[TrialSummary]) -> list[dict[str, Any]]:
    """Return the plain form of a table of trials."""
    return [
        {
            **trial.facts,
            "error": trial.error,
            "hyperparameters": trial.hyperparameters,
            "metrics": trial.metrics,
        }
        for trial in trials
    ]


def tracking_as_dict(result: RunResult) -> dict[str, Any]:
    """Return where MLflow has a run, and why not if it has not."""
    return {"tracking_uri": result.tracking_uri, "tracking_error": result.tracking_error}


def _print_trials(out: Console, spec: RunSpec, trials: Sequence[TrialSummary], best: int | None) -> None:
    """Print the table of trials; their errors follow in lines of their own."""
    table = trials_table(spec, trials, best).without("error")
    out.print(terminal_table(replace(table, title=f"{spec.method} on {spec.benchmark}: {spec.name}")))


def _show_settings(out: Console, spec: AnySpec, indent: int) -> None:
    """Say what was not searched, the precision if it is not the usual, and from where the first points were known."""
    settings: dict[str, Any] = dict(spec.fixed)
    if spec.protocol.precision != "fp32":
        settings["precision"] = spec.protocol.precision
    if settings:
        label = "fixed" if spec.purpose == "search" else "trained with"
        out.print(f"{label:<{indent}}{brief(settings, list(settings))}", soft_wrap=True)
    if spec.purpose == "final":
        return
    if spec.warm_start:
        origins = "; ".join(known.origin for known in spec.warm_start)
        out.print(f"{'warm start':<{indent}}{origins}", soft_wrap=True)
    if spec.constraints:
        bounds = "; ".join(map(str, spec.constraints))
        out.print(f"{'constraint':<{indent}}{bounds}", soft_wrap=True)


def show_search(result: SearchResult, spec: SearchSpec, storage_option: str) -> None:
    """Print what a search found and what to do next."""
    out = console()
    selection = None if result.best is None else result.best.selection
    best = None if selection is None else selection.trial
    _print_trials(out, spec, result.trials, best)
    if result.best is None or selection is None:
        out.print(_nothing_chosen(spec, result.trials), style="yellow", soft_wrap=True)
    else:
        code = code_words(spec.benchmark)
        chosen = brief(dict(result.best.hyperparameters), list(spec.dimensions))
        out.print(f"best        {selection.value:.2f} % ({selection.metric}): {chosen}")
        _show_gain(out, spec, result.trials, result.reevaluation, 12)
        forgetting = {trial.number: trial.forgetting for trial in result.trials}
        _show_forgetting(out, f"trial {selection.trial}", forgetting[selection.trial])
        out.print(f"best file   {result.best_file}", soft_wrap=True)
        out.print(
            f"final run   {tool()} train {shlex.quote(str(result.best_file))} --seeds 0 1 2{storage_option}{code}",
            soft_wrap=True,
        )
    _show_settings(out, spec, 12)
    _show_front(out, spec, result.trials, best)
    out.print(f"MLflow      {_pages(spec, storage_option)}", soft_wrap=True)
    out.print(f"log         {result.log_file}", soft_wrap=True)
    if (result.path / "figures").exists():
        out.print(f"figures     {result.path / 'figures'}", soft_wrap=True)
    _show_trust(out, spec, result.trials, rank_correlations(result.trials, spec.steps, spec.metrics))
    _show_tracking_error(out, result, storage_option)
    _show_warnings(out, spec, result.trials)
    _show_errors(out, result.trials)


def _nothing_chosen(spec: SearchSpec, trials: Sequence[TrialSummary]) -> str:
    if any(trial.status == "complete" for trial in trials):
        return f"Nothing is chosen: {why_nothing_chosen(trials, spec.constraints)}."
    return "No trial finished its last task, so there is no best configuration."


def _show_front(out: Console, spec: RunSpec, trials: Sequence[TrialSummary], best: int | None) -> None:
    """Print the Pareto front of a search with at least two finished trials."""
    if sum(trial.status == "complete" for trial in trials) < 2:
        return
    front = pareto_front(trials, spec.metrics)
    out.print(terminal_table(front_table(spec, front[:_LONGEST_FRONT], best)))
    if len(front) > _LONGEST_FRONT:
        out.print(f"and {len(front) - _LONGEST_FRONT} less accurate ones; --json has all", style="dim")


def _show_gain(
    out: Console, spec: SearchSpec, trials: Sequence[TrialSummary], reevaluation: Reevaluation | None, indent: int
) -> None:
    """Say what the search has gained over the point that it started from, if that finished, and how sure it is."""
    best = chosen_trial(spec, trials, reevaluation)
    starts = [each for each in trials if all(each.hyperparameters.get(k) == v for k, v in spec.start.items())]
    start = best_trial(starts) if spec.start else None
    if best is not None and start is not None:
        gain = (best.value or 0.0) - (start.value or 0.0)
        reevaluated = reevaluated_words(reevaluation)
        chosen = f"chosen {percent(best.value)} %{reevaluated}" if reevaluated else f"chosen {gain:+.2f} points"
        out.print(f"{'start':<{indent}}{percent(start.value)} % (trial {start.number}), {chosen}", soft_wrap=True)
    if reevaluation is not None:
        show_reevaluation(out, reevaluation, indent)
    elif best is not None and (equal := sum(trial.value == best.value for trial in trials)) > 1:
        text = f"{equal} trials came to {percent(best.value)} %: of them the one that forgets least, then the earliest"
        out.print(f"{'equal':<{indent}}{text}", soft_wrap=True)


def _show_forgetting(out: Console, who: str, points: float) -> None:
    """Say so where little is left of earlier tasks, which an accuracy alone does not tell."""
    if points > _MUCH_FORGOTTEN:
        text = f"{who} forgets {points:.0f} points: little is left of earlier tasks (see docs/troubleshooting.md)"
        out.print(text, style="yellow", soft_wrap=True)


def _show_warnings(out: Console, spec: RunSpec, trials: Sequence[TrialSummary]) -> None:
    """Say where a metric that the method declares has reached the limit that it declares."""
    from trainables.methods import get_method  # torch takes seconds to import

    for metric in get_method(spec.method).metrics:
        for trial in trials:
            if warning := metric.warn(trial.number, trial.rows):
                out.print(warning, style="yellow", soft_wrap=True)


def _show_errors(out: Console, trials: Sequence[TrialSummary]) -> None:
    """Say why trials failed or diverged."""
    for trial in trials:
        if trial.status in ("failed", "diverged"):
            out.print(f"trial {trial.number} {trial.status}: {trial.error}", style="red", soft_wrap=True)


def _show_trust(
    out: Console, spec: SearchSpec, trials: Sequence[TrialSummary], correlations: Mapping[int, float]
) -> None:
    """Say how far accuracies after early tasks tell the order at the end, or why that is not known."""
    finished = sum(trial.status == "complete" for trial in trials)
    what = "rank correlation of accuracy after task k with final accuracy"
    if correlations:
        values = "  ".join(f"{k}: {_correlation(value, finished)}" for k, value in correlations.items())
        equal = [str(k) for k in range(1, spec.steps) if k not in correlations]
        note = f" (after task {', '.join(equal)} all are equal)" if equal else ""
        out.print(f"{what}, {finished} finished trials   {values}{note}", soft_wrap=True)
    elif spec.scheduler != "none":
        out.print(f"{what}: not known, it takes {ENOUGH} finished trials that came to different values", soft_wrap=True)


def _correlation(value: float, finished: int) -> str:
    low, high = correlation_interval(value, finished)
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def show_final(result: FinalResult, spec: FinalSpec, storage_option: str) -> None:
    """Print the test results of a final run."""
    out = console()
    _print_trials(out, spec, result.trials, None)
    for metric, part in result.summary.items():
        out.print(f"{metric:<22}{_over_seeds(part)}")
    for order, summary in summarise_orders(spec, result.trials).items():
        if accuracy := summary.get(spec.metrics.final_accuracy):
            out.print(f"class order {order:<10}{_over_seeds(accuracy)}")
    forgetting = result.summary.get(spec.metrics.forgetting)
    _show_forgetting(out, "this configuration", 0.0 if forgetting is None else forgetting["mean"])
    _show_settings(out, spec, 14)
    if spec.tuned_on is not None:
        elsewhere = "" if spec.tuned_on == spec.benchmark else f", judged on {spec.benchmark}"
        out.print(f"tuned on      {spec.tuned_on} (search {spec.source}){elsewhere}", soft_wrap=True)
    if result.results_file is not None:
        out.print(f"results       {result.results_file}", soft_wrap=True)
    if (result.path / "task_vectors").exists():
        out.print(f"task vectors  {result.path / 'task_vectors'}", soft_wrap=True)
        words = f"{storage_option}{code_words(spec.benchmark)}"
        out.print(f"predict       {tool()} predict {result.name} IMAGES{words}", soft_wrap=True)
    out.print(f"MLflow        {_pages(spec, storage_option)}", soft_wrap=True)
    _show_tracking_error(out, result, storage_option)


def _over_seeds(part: MetricSummary) -> str:
    spread = " % (one seed)" if part["std"] is None else f" ± {part['std']:.2f} % over {part['seeds']} seeds"
    return f"{part['mean']:6.2f}{spread}"


def _pages(spec: RunSpec, storage_option: str) -> str:
    """Say where a person finds MLflow's pages of a run: on its server, or with a command."""
    return f"{tool()} ui{storage_option}" if spec.tracking_uri is None else spec.tracking_uri


def _show_tracking_error(out: Console, result: RunResult, storage_option: str) -> None:
    if result.tracking_error:
        out.print(
            f"MLflow at {result.tracking_uri} does not have all of it ({result.tracking_error}); once it does answer:"
            f" {tool()} sync {result.name}{storage_option}",
            style="yellow",
            soft_wrap=True,
        )


def show_statuses(statuses: Sequence[RunStatus]) -> None:
    """Print one line per run."""
    if not statuses:
        console().print("no runs yet")
        return
    columns = words("run", "purpose", "benchmark", "method", "state", "trials", "best", "hyperparameters", "note")
    rows = [
        (
            found.spec.name,
            found.spec.purpose,
            found.spec.benchmark,
            found.spec.method,
            found.state,
            f"{found.ended}/{found.spec.trials}",
            found.accuracy if found.score is None else found.score,
            None if found.best is None else brief(dict(found.best.hyperparameters), list(found.spec.dimensions)),
            found.note,
        )
        for found in statuses
    ]
    columns[6] = Column("best", score, wrap=True)
    table = terminal_table(Table("", columns, rows).without_empty("note"))
    table.columns[0].min_width = max(len(found.spec.name) for found in statuses)  # for people to copy
    console().print(table)


def show_status(found: RunStatus) -> None:
    """Print one run with its trials."""
    out = console()
    counts = ", ".join(f"{count} {name}" for name, count in found.counts.items() if count)
    begun = sum(trial.status == "pending" for trial in found.trials)
    waiting = found.counts["pending"] - begun
    out.print(f"{found.spec.name}: {found.state}; {counts}{f' ({waiting} not begun)' if begun and waiting else ''}")
    if found.note:
        out.print(f"note: {found.note}", soft_wrap=True)
    best = None if found.best is None else found.best.number
    _print_trials(out, found.spec, found.trials, best)
    _show_settings(out, found.spec, 14)
    if found.spec.purpose == "search":
        _show_gain(out, found.spec, found.trials, found.reevaluation, 14)
        if found.best is None and found.counts["complete"]:
            out.print(_nothing_chosen(found.spec, found.trials), style="yellow", soft_wrap=True)
        _show_front(out, found.spec, found.trials, best)
        _show_trust(out, found.spec, found.trials, found.rank_correlations)
    _show_errors(out, found.trials)


def show_protocols(found: RunStatus, choices: Sequence[ProtocolChoice]) -> None:
    """Print what searches that look at the first tasks alone would have chosen."""
    out, finished = console(), found.counts["complete"]
    if not choices:
        out.print(
            f"what first tasks would have chosen: not known, {finished} finished trials of {ENOUGH} that it takes"
        )
        return
    columns = [
        *numbers("tasks", "trial"),
        *numbers("accuracy after them", "final accuracy", "lost", format=percent),
        *numbers(f"rank of {finished}"),
        *words("hyperparameters"),
    ]
    best, by_number = max(each.value for each in choices), {trial.number: trial for trial in found.trials}
    rows = []
    for each in choices:
        values = brief(dict(by_number[each.trial].hyperparameters), list(found.spec.dimensions))
        rows.append((each.tasks, each.trial, each.accuracy, each.value, best - each.value, each.rank, values))
    out.print(terminal_table(Table(f"{found.spec.name}: chosen by the first tasks", columns, rows)))
    if stopped := found.counts["pruned"]:
        out.print(f"{counted(stopped, 'trial')} stopped early, out of the competition", style="dim")
