"""Runs and their trials as tables for people, and as plain values for programs."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.console import Console

from checked_input.names import counted
from tausearch.cli.output.reevaluations import reevaluated_words, standing_words
from tausearch.presentation import (
    Column,
    Table,
    bounds_line,
    brief,
    console,
    front_table,
    left_out_table,
    numbers,
    percent,
    reevaluation_table,
    score,
    see_page,
    sync_advice,
    terminal_table,
    tool,
    trials_table,
    words,
)
from tausearch.runs import (
    ENOUGH,
    AnySpec,
    BesideBounds,
    Ending,
    FinalSpec,
    MetricSummary,
    MultiTrial,
    ProtocolChoice,
    Reevaluation,
    RunResult,
    RunSpec,
    RunStatus,
    Score,
    SearchSpec,
    Storage,
    TrialSummary,
    chance,
    chosen_trial,
    correlation_interval,
    eligible,
    gain_of,
    hardly_learned,
    left_out,
    little_left,
    rank_correlations,
    start_trial,
    summarise_orders,
    unit_of,
    waiting_share,
    why_nothing_chosen,
)
from trainables.user_code import code_words

if TYPE_CHECKING:  # torch and Ray take seconds to import; to show what runs left must not
    from tausearch.api import FinalResult, SearchResult
    from tausearch.campaigns import CampaignStanding

_NAMED_CELLS = 6  # of a campaign, in a line
_LONGEST_FRONT = 10  # trials that a terminal shows
_MOST_TRIALS = 100  # the best of a search, and those that run; rich takes a millisecond for each
_NAMED_TRIALS = 10  # of those that failed for the same reason
_MOST_REASONS = 10
_WAITED = 0.25  # share of the training in which GPUs waited for images, from which on a user is told
_MUCH_FORGOTTEN = 50.0  # percentage points


@dataclass(frozen=True)
class _Lines:
    """Prints lines that begin with a label; `width` is that of the labels."""

    out: Console
    width: int

    def say(self, label: str, text: object) -> None:
        self.out.print(f"{label:<{self.width}}{text}", soft_wrap=True)

    def warn(self, text: str, style: str = "yellow") -> None:
        self.out.print(text, style=style, soft_wrap=True)


def _trials_as_dicts(trials: Sequence[TrialSummary]) -> list[dict[str, Any]]:
    """Return the plain form of a table of trials."""
    names = ("error", "hyperparameters", "metrics")
    plain = [{**trial.facts, **{name: getattr(trial, name) for name in names}} for trial in trials]
    for each, trial in zip(plain, trials, strict=True):
        if isinstance(trial, MultiTrial):
            each["accuracies"] = list(trial.accuracies)
    return plain


def status_as_dict(
    found: RunStatus, choices: Sequence[ProtocolChoice] | None, beside: BesideBounds | None
) -> dict[str, Any]:
    """Return what `status NAME --format json` prints, with the choices of first tasks where they are asked for."""
    return {
        **found.as_dict(),
        **_bounds_as_dict(beside),
        "rank_correlation": {f"task_{k}": value for k, value in found.rank_correlations.items()},
        "pareto_front": [trial.number for trial in found.front],
        **_left_out_as_dict(found.spec, found.trials),
        **({} if choices is None else {"protocols": [asdict(each) for each in choices]}),
        "table": _trials_as_dicts(found.trials),
    }


def search_as_dict(result: SearchResult, spec: SearchSpec) -> dict[str, Any]:
    """Return what the commands that run a search print with `--format json`."""
    best = None if result.best is None else result.best.model_dump(mode="json")
    reevaluated = {} if result.reevaluation is None else {"reevaluation": result.reevaluation.as_dict()}
    trials = _trials_as_dicts(result.trials)
    ended = {} if result.ending is None else {"ended": result.ending.model_dump()}
    more = {
        **({"front": spec.aim.front_as_dicts(result.trials)} if len(spec.objectives) > 1 else {}),
        **ended,
        **reevaluated,
        **_left_out_as_dict(spec, result.trials),
        **_bounds_as_dict(result.bounds),
        **_tracking_as_dict(result),
    }
    return {"name": result.name, "best": best, "trials": trials, **more}


def final_as_dict(result: FinalResult) -> dict[str, Any]:
    """Return what the commands that run a final run print with `--format json`."""
    seeds = _trials_as_dicts(result.trials)
    more = {**_bounds_as_dict(result.bounds), **_tracking_as_dict(result)}
    return {"name": result.name, "summary": result.summary, "seeds": seeds, **more}


def _left_out_as_dict(spec: RunSpec, trials: Sequence[TrialSummary]) -> dict[str, Any]:
    found = left_out(spec, trials)
    return {"left_out": [each.as_dict() for each in found]} if found else {}


def _bounds_as_dict(beside: BesideBounds | None) -> dict[str, Any]:
    return {} if beside is None else {"bounds": beside.as_dict()}


def _tracking_as_dict(result: RunResult) -> dict[str, Any]:
    return {"tracking_uri": result.tracking_uri, "tracking_error": result.tracking_error}


def show_search(result: SearchResult, spec: SearchSpec, storage_option: str) -> None:
    """Print what a search found and what to do next."""
    lines = _Lines(console(), 12)
    selection = None if result.best is None else result.best.selection
    best = None if selection is None else selection.trial
    _show_trials(lines, spec, result.trials, best)
    _show_ending(lines, result.ending)
    if result.best is None or selection is None:
        lines.warn(nothing_chosen(spec, result.trials))
    else:
        chosen = brief(dict(result.best.hyperparameters), list(spec.dimensions))
        trial = next(each for each in result.trials if each.number == selection.trial)
        value = spec.words(trial) if spec.objectives else f"{spec.value_text(selection.value)} ({selection.metric})"
        lines.say("best", f"{value}: {chosen}")
        _show_gain(lines, spec, result.trials, result.reevaluation)
        forgetting = {trial.number: trial.forgetting for trial in result.trials}
        chosen_trials = [trial for trial in result.trials if trial.number == selection.trial]
        _show_left(lines, spec, f"trial {selection.trial}", chosen_trials, forgetting[selection.trial])
        _show_bounds(lines, result.bounds)
        lines.say("best file", result.best_file)
        file, code = shlex.quote(str(result.best_file)), code_words(*spec.code)
        for on in [f" --benchmark {shlex.quote(name)}" for name in result.best.benchmarks] or [""]:
            lines.say("final run", f"{tool()} train {file}{on} --seeds 0,1,2{storage_option}{code}")
    _show_settings(lines, spec)
    _show_left_out(lines, spec, result.trials)
    _show_front(lines, spec, result.trials, best)
    _say_trackers(lines, spec, result, storage_option)
    lines.say("log", result.log_file)
    if (result.path / "figures").exists():
        lines.say("figures", result.path / "figures")
    _show_trust(lines, spec, result.trials, rank_correlations(result.trials, spec.steps, spec.metrics))
    if result.tracking_error:
        lines.warn(sync_advice(result.name, result.tracking_error, storage_option))
    _show_metric_warnings(lines, spec, result.trials)
    _show_waiting(lines, spec, result.trials)
    _show_errors(lines, spec, result.trials)


def show_final(result: FinalResult, spec: FinalSpec, storage_option: str) -> None:
    """Print the test results of a final run."""
    lines = _Lines(console(), 14)
    _show_trials(lines, spec, result.trials, None)
    for metric, part in result.summary.items():
        lines.out.print(f"{metric:<35}{_over(part, unit_of(metric), spec.trial_name)}")
    for order, summary in summarise_orders(spec, result.trials).items():
        if accuracy := summary.get(spec.metrics.final_accuracy):
            lines.out.print(f"class order {order:<23}{_over(accuracy, '%', 'seed')}")
    forgetting = result.summary.get(spec.metrics.forgetting)
    forgotten = 0.0 if forgetting is None else forgetting["mean"]
    _show_left(lines, spec, "this configuration", result.trials, forgotten)
    _show_bounds(lines, result.bounds)
    _show_settings(lines, spec)
    if spec.tuned_on is not None:
        elsewhere = "" if spec.tuned_on == spec.benchmark else f", judged on {spec.benchmark}"
        lines.say("tuned on", f"{spec.tuned_on} (search {spec.source}){elsewhere}")
    _show_errors(lines, spec, result.trials)
    if result.results_file is not None:
        lines.say("results", result.results_file)
    if (result.path / "task_vectors").exists():
        lines.say("task vectors", result.path / "task_vectors")
        code = code_words(*spec.code)
        lines.say("predict", f"{tool()} predict {result.name} IMAGES{storage_option}{code}")
    _say_trackers(lines, spec, result, storage_option)
    if result.tracking_error:
        lines.warn(sync_advice(result.name, result.tracking_error, storage_option))
    _show_waiting(lines, spec, result.trials)


def show_starting(standings: Sequence[CampaignStanding]) -> None:
    """Print a line for each campaign that has no run yet, with the cells that wait."""
    for each in standings:
        titles = [cell.cell.title for cell in each.cells]
        more = f" and {len(titles) - _NAMED_CELLS} more" if len(titles) > _NAMED_CELLS else ""
        waiting = f"{counted(len(titles), 'cell')} waiting: {', '.join(titles[:_NAMED_CELLS])}{more}"
        console().print(f"campaign {each.name}: starting; {waiting}", soft_wrap=True)


def show_no_runs(root: Storage) -> None:
    """Say that a storage root has no runs: it may be mistyped."""
    console().print(f"no runs in {root.root} yet", soft_wrap=True)


def show_statuses(statuses: Sequence[RunStatus]) -> None:
    """Print one line per run."""
    columns = [
        *words("run", "purpose", "benchmark", "method", "state"),
        *(Column(name, wrap=True) for name in ("trials", "best")),
        *words("hyperparameters", "note"),
    ]
    rows = [
        (
            found.spec.name,
            found.spec.purpose,
            found.spec.benchmark,
            found.spec.method,
            found.state,
            ", ".join([f"{found.ended}/{found.planned}", *_lost(found)]),
            _best_cell(found),
            None if found.best is None else brief(dict(found.best.hyperparameters), list(found.spec.dimensions)),
            found.note,
        )
        for found in statuses
    ]
    table = terminal_table(Table("", columns, rows).without_empty("note"))
    table.columns[0].min_width = max(len(found.spec.name) for found in statuses)  # for people to copy
    console().print(table)


def _lost(found: RunStatus) -> list[str]:
    """Return how many trials have ended without a value, by what befell them."""
    return [f"{found.counts[each]} {each}" for each in ("failed", "diverged") if found.counts[each]]


def show_status(found: RunStatus, beside: BesideBounds | None = None, go_on: str | None = None) -> None:
    """Print one run with its trials, beside its bounds, and the command that continues it where there is one."""
    lines = _Lines(console(), 14)
    counts = ", ".join(f"{count} {name}" for name, count in found.counts.items() if count)
    begun = sum(trial.status == "pending" for trial in found.trials)
    waiting = found.counts["pending"] - begun
    not_begun = f" ({waiting} not begun)" if begun and waiting else ""
    lines.out.print(f"{found.spec.name}: {found.state}; {counts}{not_begun}")
    if found.note:
        lines.out.print(f"note: {found.note}", soft_wrap=True)
    best = None if found.best is None else found.best.number
    if found.trials:
        _show_trials(lines, found.spec, found.trials, best)
    else:
        lines.out.print(
            f"{found.spec.method} on {found.spec.benchmark}: no {found.spec.role} has begun", soft_wrap=True
        )
    _show_settings(lines, found.spec)
    _show_bounds(lines, beside)
    if found.spec.purpose == "search":
        _show_ending(lines, found.ending)
        _show_gain(lines, found.spec, found.trials, found.reevaluation)
        if found.best is None and found.counts["complete"]:
            lines.warn(nothing_chosen(found.spec, found.trials))
        _show_left_out(lines, found.spec, found.trials)
        _show_front(lines, found.spec, found.trials, best)
        _show_trust(lines, found.spec, found.trials, found.rank_correlations)
    _show_errors(lines, found.spec, found.trials)
    if go_on is not None:
        lines.out.print(f"go on: {go_on}", soft_wrap=True)


def _best_cell(found: RunStatus) -> str | None:
    """Return a run's accuracy, percent; where trials are chosen by another value, that with its unit."""
    value = found.accuracy if found.score is None else found.score
    if value is None or isinstance(value, Score) or found.spec.value_unit == "%":
        return None if value is None else score(value)
    return found.spec.value_text(value)


def show_protocols(found: RunStatus, choices: Sequence[ProtocolChoice]) -> None:
    """Print what searches that look at the first tasks alone would have chosen."""
    out, finished = console(), found.counts["complete"]
    if not choices:
        out.print(f"what first tasks would have chosen: not known, it takes {ENOUGH} finished trials, not {finished}")
        return
    columns = [
        *numbers("tasks", "trial"),
        *numbers("accuracy after them", found.spec.value_name.lower(), "lost", format=percent),
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


def _show_trials(lines: _Lines, spec: RunSpec, trials: Sequence[TrialSummary], best: int | None) -> None:
    """Print the table of trials, of many the best and those that run; their errors follow in lines of their own."""
    shown = trials
    if len(trials) > _MOST_TRIALS:
        order = eligible(trials, spec.aim) if isinstance(spec, SearchSpec) else eligible(trials)
        kept = {trial.number for trial in order[:_MOST_TRIALS]}
        shown = [trial for trial in trials if trial.number in kept or not trial.has_ended]
    table = trials_table(spec, shown, best).without("error")
    lines.out.print(terminal_table(replace(table, title=f"{spec.method} on {spec.benchmark}: {spec.name}")))
    if others := len(trials) - len(shown):
        lines.out.print(f"and {counted(others, 'trial')} that are no better; --format json has all", style="dim")


def _show_settings(lines: _Lines, spec: AnySpec) -> None:
    """Print the fixed values, a precision other than fp32, the device, the warm start and the constraints."""
    precision = {} if spec.protocol.precision == "fp32" else {"precision": spec.protocol.precision}
    settings = {**spec.fixed, **precision}
    if settings:
        lines.say("fixed" if spec.purpose == "search" else "trained with", brief(settings, list(settings)))
    if spec.purpose == "final" and spec.overrides:
        lines.say("overridden", brief(spec.overrides, list(spec.overrides)))
    if spec.device:
        lines.say("trials on", spec.device)
    if spec.purpose == "search" and spec.warm_start:
        lines.say("warm start", "; ".join(known.origin for known in spec.warm_start))
    if spec.purpose == "search" and spec.objectives:
        lines.say("aims at", spec.aim)
    if spec.purpose == "search" and spec.constraints:
        lines.say("constraint", "; ".join(map(str, spec.constraints)))


def nothing_chosen(spec: SearchSpec, trials: Sequence[TrialSummary]) -> str:
    """Return the line that says why a search has chosen nothing."""
    if any(trial.status == "complete" for trial in trials):
        return f"Nothing is chosen: {why_nothing_chosen(trials, spec.constraints, spec.value_unit)}."
    return "No trial finished its last task, so there is no best configuration."


def _show_left_out(lines: _Lines, spec: SearchSpec, trials: Sequence[TrialSummary]) -> None:
    """Print how well hyperparameters travel between several benchmarks."""
    if found := left_out(spec, trials):
        lines.out.print(terminal_table(left_out_table(found)))


def _show_front(lines: _Lines, spec: SearchSpec, trials: Sequence[TrialSummary], best: int | None) -> None:
    """Print the Pareto front of a search if it has several points; that of several aims also if it is another one."""
    front = spec.aim.front(trials)
    if len(front) < 2 and (not spec.objectives or best in [None, *(trial.number for trial in front)]):
        return
    lines.out.print(terminal_table(front_table(spec, front[:_LONGEST_FRONT], best)))
    if len(front) > _LONGEST_FRONT:
        lines.out.print(f"and {len(front) - _LONGEST_FRONT} less accurate ones; --format json has all", style="dim")


def _show_gain(
    lines: _Lines, spec: SearchSpec, trials: Sequence[TrialSummary], reevaluation: Reevaluation | None
) -> None:
    """Print the gain over the start if that finished, then how sure the choice is."""
    best = chosen_trial(spec, trials, reevaluation)
    gain = gain_of(spec, trials, best, reevaluation)
    start = start_trial(spec, trials)
    if best is not None and start is not None:
        chosen = f"chosen {spec.words(best)}{reevaluated_words(reevaluation)}"
        gained = f", {gain}" if gain is not None else ", which is the start" if best == start else ""
        lines.say("start", f"{spec.words(start)} (trial {start.number}), {chosen}{gained}")
    if reevaluation is not None:
        lines.say("reevaluated", standing_words(reevaluation))
        if reevaluation.runs:
            lines.out.print(terminal_table(reevaluation_table(reevaluation)))
        if broken := reevaluation.broken_bounds():
            lines.warn(
                f"The chosen trial keeps its constraints in the search; its fresh runs do not: {'; '.join(broken)}"
            )
    if not spec.objectives and best is not None and (equal := sum(trial.value == best.value for trial in trials)) > 1:
        how = "of them the one that forgets least, then the earliest"
        how = how if reevaluation is None else "fresh runs choose among the best"
        finished = sum(trial.value is not None for trial in trials)
        lines.say("equal", f"{equal} of {finished} trials came to {spec.value_text(best.value)}: {how}")


def _show_ending(lines: _Lines, ending: Ending | None) -> None:
    """Print why the trials of a search have ended, or what stopped it."""
    if ending is not None:
        lines.say("ended", ending)


def _show_left(lines: _Lines, spec: RunSpec, who: str, trials: Sequence[TrialSummary], points: float) -> None:
    """Warn in one line if little is left of tasks, which an accuracy alone does not tell."""
    where = f"({see_page('troubleshooting')})"
    if points > _MUCH_FORGOTTEN:
        lines.warn(f"{who} forgets {points:.0f} points: little is left of earlier tasks {where}")
    elif tasks := little_left(spec, trials):
        lines.warn(f"{who}: little is left of task {tasks} {where}")
    if tasks := hardly_learned(spec, trials):
        lines.warn(f"{who}: hardly more than chance ({chance(spec):.0f} %) was learned of task {tasks} {where}")


def _show_bounds(lines: _Lines, beside: BesideBounds | None) -> None:
    """Print an accuracy beside chance and the bounds."""
    if beside is not None:
        lines.say("bounds", bounds_line(beside))


def _show_metric_warnings(lines: _Lines, spec: RunSpec, trials: Sequence[TrialSummary]) -> None:
    """Warn if a metric of the method has reached the limit that the method declares."""
    from trainables.methods import known_method  # torch takes seconds to import

    entry = known_method(spec.method)
    for metric in () if entry is None else entry.metrics:
        for trial in trials:
            if warning := metric.warn(trial.number, trial.rows):
                lines.warn(warning)


def _show_waiting(lines: _Lines, spec: RunSpec, trials: Sequence[TrialSummary]) -> None:
    """Warn if GPUs have often waited for images."""
    share = waiting_share(trials)
    if spec.resources.gpus_per_trial and share >= _WAITED:
        instead = f"prepare the images ({tool()} data prepare), or give a trial four CPUs (--cpus-per-trial 4)"
        lines.warn(f"trials waited for images in {100 * share:.0f} % of their training: {instead}")


def _show_errors(lines: _Lines, spec: AnySpec, trials: Sequence[TrialSummary]) -> None:
    """Print why trials or seeds failed or diverged, those with the same reason together."""
    found = defaultdict[tuple[str, str | None], list[str]](list)
    for trial in trials:
        if trial.status in ("failed", "diverged"):
            found[trial.status, trial.error].append(_in_its_run(spec, trial))
    for (status, why), failed in list(found.items())[:_MOST_REASONS]:
        more = f" and {len(failed) - _NAMED_TRIALS} more" if len(failed) > _NAMED_TRIALS else ""
        word = "trial" if spec.purpose == "search" else "seed"
        named = f"{word}{'s' * (len(failed) > 1)} {', '.join(failed[:_NAMED_TRIALS])}{more}"
        lines.warn(f"{named} {status}: {why}", "red")
    if len(found) > _MOST_REASONS:
        lines.warn(f"{counted(len(found) - _MOST_REASONS, 'more reason')}: see --format json", "red")


def _in_its_run(spec: AnySpec, trial: TrialSummary) -> str:
    """Return the number of a trial; of a final run its seed, and its class order if it has several."""
    if spec.purpose == "search":
        return str(trial.number)
    order = spec.class_order(trial.number)
    return str(trial.seed) if order is None else f"{trial.seed} (class order {order})"


def _show_trust(
    lines: _Lines, spec: SearchSpec, trials: Sequence[TrialSummary], correlations: Mapping[int, float]
) -> None:
    """Print how far accuracies after early tasks tell the order at the end, or why that is unknown."""
    finished = sum(trial.status == "complete" for trial in trials)
    what = f"rank correlation of accuracy after {spec.step_name} k with final accuracy"
    if correlations:
        values = []
        for k, value in correlations.items():
            low, high = correlation_interval(value, finished)
            values.append(f"{k}: {value:.2f} ({low:.2f} to {high:.2f})")
        equal = [str(k) for k in range(1, spec.steps) if k not in correlations]
        note = f" (after {spec.step_name} {', '.join(equal)} all are equal)" if equal else ""
        lines.out.print(f"{what}, {finished} finished trials   {'  '.join(values)}{note}", soft_wrap=True)
    elif spec.scheduler != "none":
        known = f"not known, it takes {ENOUGH} finished trials with different values"
        lines.out.print(f"{what}: {known}", soft_wrap=True)


def _over(part: MetricSummary, unit: str, noun: str) -> str:
    """Return a mean with its deviation; the noun says over what: seeds, or trials with class orders."""
    spread = "" if part["std"] is None else f" ± {part['std']:.2f}"
    several = f"(one {noun})" if part["std"] is None else f"over {counted(part['seeds'], noun)}"
    return f"{part['mean']:6.2f}{spread} {f'{unit} ' if unit else ''}{several}"


def _say_trackers(lines: _Lines, spec: RunSpec, result: RunResult, storage_option: str) -> None:
    if "mlflow" in spec.trackers:
        lines.say("MLflow", _pages(spec, storage_option))
    if "tensorboard" in spec.trackers:
        lines.say("TensorBoard", f"tensorboard --logdir {shlex.quote(str(result.path))}")


def _pages(spec: RunSpec, storage_option: str) -> str:
    """Return where MLflow's pages of a run are: the address of its server, or the command that opens them."""
    return f"{tool()} runs ui{storage_option}" if spec.tracking_uri is None else spec.tracking_uri
