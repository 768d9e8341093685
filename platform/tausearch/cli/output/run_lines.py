"""The lines and tables about a run that its end and its status share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from checked_input.names import counted
from tausearch.cli.output.reevaluations import reevaluated_words, reevaluation_progress
from tausearch.presentation import (
    brief,
    front_table,
    leave_one_out_table,
    reevaluation_table,
    terminal_table,
    trials_table,
)
from tausearch.runs import (
    MIN_FINISHED_TRIALS,
    AnySpec,
    KnownPoint,
    Reevaluation,
    RunSpec,
    SearchSpec,
    TrialSummary,
    chosen_trial,
    correlation_interval,
    eligible,
    gain_of,
    leave_one_out,
    no_feasible_trial_reason,
    start_trial,
)

_LONGEST_FRONT = 10  # trials that a terminal shows
_MOST_TRIALS = 100  # of a search the best, of a final run the first; rich takes a millisecond for each
_NAMED_TRIALS = 10  # of those that failed for the same reason
_MOST_REASONS = 10


@dataclass(frozen=True)
class Lines:
    """Prints lines that begin with a label; `width` is that of the labels."""

    out: Console
    width: int

    def say(self, label: str, text: object | None) -> None:
        """Print a line behind its label; nothing for None."""
        if text is not None:
            self.out.print(f"{label:<{self.width}}{text}", soft_wrap=True)

    def warn(self, text: str | None, style: str = "yellow") -> None:
        """Print a line that stands out; nothing for None."""
        if text is not None:
            self.out.print(text, style=style, soft_wrap=True)


def show_trials(lines: Lines, spec: RunSpec, trials: Sequence[TrialSummary], best: int | None) -> None:
    """Print the table of trials, of many some and those that run; their errors follow in lines of their own."""
    shown, no_better, title = trials, 0, f"{spec.method} on {spec.benchmark}: {spec.name}"
    if not trials:
        lines.out.print(f"{title}: no {spec.trial_noun} has begun", soft_wrap=True)
        return
    if len(trials) > _MOST_TRIALS:
        order = eligible(trials, spec.aim) if isinstance(spec, SearchSpec) else trials  # test images choose no seed
        kept = {trial.number for trial in order[:_MOST_TRIALS]}
        shown = [trial for trial in trials if trial.number in kept or not trial.has_ended]
        no_better = len(order) - len(kept)
    table = trials_table(spec, shown, best).without("error")
    lines.out.print(terminal_table(replace(table, title=title)))
    if others := len(trials) - len(shown):
        parts = [(no_better, "no better"), (others - no_better, "that cannot be chosen")]
        why = ", ".join(f"{count:,} {which}" for count, which in parts if count)
        left_out = f"{others:,} more{f': {why}' if spec.purpose == 'search' else ''}"
        lines.out.print(f"and {left_out}; --format json has all", style="dim")


def show_settings(lines: Lines, spec: AnySpec, trials: Sequence[TrialSummary]) -> None:
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
        lines.say("warm start", "; ".join(_origin(known, trials) for known in spec.warm_start))
    if spec.purpose == "search" and spec.objectives:
        lines.say("aims at", spec.aim)
    if spec.purpose == "search" and spec.constraints:
        lines.say("constraint", "; ".join(map(str, spec.constraints)))


def _origin(known: KnownPoint, trials: Sequence[TrialSummary]) -> str:
    tried = any(known.point.items() <= trial.hyperparameters.items() for trial in trials)
    return known.origin if tried else f"{known.origin} (no trial)"


def nothing_chosen(spec: SearchSpec, trials: Sequence[TrialSummary]) -> str:
    """Return the line that says why a search has chosen nothing."""
    if any(trial.status == "complete" for trial in trials):
        return f"Nothing is chosen: {no_feasible_trial_reason(trials, spec.constraints, spec.value_labels.unit)}."
    return "No trial finished its last task, so there is no best configuration."


def show_left_out(lines: Lines, spec: SearchSpec, trials: Sequence[TrialSummary]) -> None:
    """Print how well hyperparameters travel between several benchmarks."""
    if found := leave_one_out(spec, trials):
        lines.out.print(terminal_table(leave_one_out_table(found)))


def show_front(lines: Lines, spec: SearchSpec, trials: Sequence[TrialSummary], best: int | None) -> None:
    """Print the Pareto front of a search if it has several points; that of several aims also if it is another one."""
    front = spec.aim.front(trials)
    if len(front) < 2 and (not spec.objectives or best in [None, *(trial.number for trial in front)]):
        return
    lines.out.print(terminal_table(front_table(spec, front[:_LONGEST_FRONT], best)))
    if len(front) > _LONGEST_FRONT:
        lines.out.print(f"and {len(front) - _LONGEST_FRONT} less accurate ones; --format json has all", style="dim")


def show_gain(
    lines: Lines, spec: SearchSpec, trials: Sequence[TrialSummary], reevaluation: Reevaluation | None
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
        lines.say("reevaluated", reevaluation_progress(reevaluation))
        if reevaluation.runs:
            lines.out.print(terminal_table(reevaluation_table(reevaluation)))
        if violated := reevaluation.violated_constraints():
            lines.warn(
                f"The chosen trial keeps its constraints in the search; its fresh runs do not: {'; '.join(violated)}"
            )
    competing = eligible(trials, spec.aim)
    if not spec.objectives and best is not None and (equal := sum(each.value == best.value for each in competing)) > 1:
        how = "of them the one that forgets least, then the earliest"
        how = how if reevaluation is None else "fresh runs choose among the best"
        lines.say("equal", f"{equal} of {len(competing)} trials came to {spec.value_text(best.value)}: {how}")


def show_errors(lines: Lines, spec: AnySpec, trials: Sequence[TrialSummary]) -> None:
    """Print why trials or seeds failed or diverged, those with the same reason together."""
    found = defaultdict[tuple[str, str | None], list[str]](list)
    for trial in trials:
        if trial.status in ("failed", "diverged"):
            found[trial.status, trial.error].append(spec.label(trial.number).removeprefix(f"{spec.role} "))
    for (status, why), failed in list(found.items())[:_MOST_REASONS]:
        more = f" and {len(failed) - _NAMED_TRIALS} more" if len(failed) > _NAMED_TRIALS else ""
        word = "trial" if spec.purpose == "search" else "seed"
        named = f"{word}{'s' * (len(failed) > 1)} {', '.join(failed[:_NAMED_TRIALS])}{more}"
        lines.warn(f"{named} {status}: {why}", "red")
    if len(found) > _MOST_REASONS:
        lines.warn(f"{counted(len(found) - _MOST_REASONS, 'more reason')}: see --format json", "red")


def show_trust(
    lines: Lines, spec: SearchSpec, trials: Sequence[TrialSummary], correlations: Mapping[int, float]
) -> None:
    """Print how far accuracies after early tasks tell the order at the end, or why that is unknown."""
    finished = sum(trial.status == "complete" for trial in trials)
    what = f"rank correlation of accuracy after {spec.step_noun} k with final accuracy"
    if correlations:
        values = []
        for k, value in correlations.items():
            low, high = correlation_interval(value, finished)
            values.append(f"{k}: {value:.2f} ({low:.2f} to {high:.2f})")
        equal = [str(k) for k in range(1, spec.steps) if k not in correlations]
        note = f" (after {spec.step_noun} {', '.join(equal)} all are equal)" if equal else ""
        lines.out.print(f"{what}, {finished} finished trials   {'  '.join(values)}{note}", soft_wrap=True)
    elif spec.scheduler != "none":
        known = f"not known, it takes {MIN_FINISHED_TRIALS} finished trials with different values"
        lines.out.print(f"{what}: {known}", soft_wrap=True)
