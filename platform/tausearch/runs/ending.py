"""Why a search ends: its rule for ending early (`--patience`, `--target`), its trials, or what stopped its driver."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Literal

from checked_input.names import counted
from checked_input.schema import Strict
from checked_input.text_files import TextFileError, read_text
from tausearch.runs.directories import RunDirectory
from tausearch.runs.objectives.aim import eligible
from tausearch.runs.objectives.objective import FINAL_ACCURACY
from tausearch.runs.reevaluations import read_reevaluation
from tausearch.runs.specs.run import RunSpec
from tausearch.runs.specs.search import SearchSpec, StopRule
from tausearch.runs.storage import replace_text
from tausearch.runs.trials import TrialSummary, TrialTable

Reason = Literal["trials", "patience", "target", "time budget", "interrupted"]
_ROUNDING = 1e-9  # gains of exactly one image must not count, whatever the last bits
Stopped = Literal["time budget", "closed output", "interrupted"]  # what stops a driver, as its run keeps it
_STOPPED: dict[str, tuple[Reason, str]] = {
    "time budget": ("time budget", "the time budget is used up"),
    "closed output": ("interrupted", "its output was closed"),
    "interrupted": ("interrupted", "Ctrl-C, SIGTERM or SIGUSR1 stopped it"),
}


class Ending(Strict):
    """Why a search has ended, or why its driver stopped."""

    reason: Reason  # "patience" and "target" by its own rule, "trials" if all were run, else what stopped the driver
    why: str  # the same in words, with the numbers

    def __str__(self) -> str:
        return f"{self.reason}: {self.why}"


def cut_short(spec: RunSpec, trials: Iterable[TrialSummary]) -> Ending | None:
    """Return why a search starts no more trials although some are left; None while it goes on.

    It depends on the trials alone, so a killed search that is resumed ends at the same trial. Trials that run then end
    first, and take part in the choice. A trial that comes to the target ends the search at once. For patience, trials
    in a row are consecutive by number, and a trial counts once all trials before it have ended. A failed trial says
    nothing about its configuration and is passed over. Nothing counts before the first value. A trial that the record
    has lost is run again before a later one can end the search.
    """
    if not isinstance(spec, SearchSpec) or spec.stop.never:
        return None
    trials = list(trials)
    return _target_reached(spec, trials) or _patience_lost(spec, trials)


def all_ended(spec: RunSpec, trials: Collection[TrialSummary]) -> bool:
    """Whether all trials that a run will have are among these and have ended."""
    if any(not trial.has_ended for trial in trials):
        return False
    return len(trials) == spec.trials or cut_short(spec, trials) is not None


def planned_trials(spec: RunSpec, trials: Collection[TrialSummary] | TrialTable) -> int:
    """Return the number of trials that a run has in the end: those that have started, if it is cut short."""
    return spec.trials if cut_short(spec, trials) is None else len(trials)


def ending_of(spec: RunSpec, directory: RunDirectory, trials: Collection[TrialSummary]) -> Ending | None:
    """Return why the trials of a search have ended, or why its last driver stopped; None if neither is known."""
    if spec.purpose != "search":
        return None
    if all_ended(spec, trials):
        why = f"all {len(trials)} trials have ended" if len(trials) > 1 else "its only trial has ended"
        done = Ending(reason="trials", why=why)
        return cut_short(spec, trials) or done
    stopped = None
    with suppress(FileNotFoundError, TextFileError):
        stopped = _STOPPED.get(read_text(directory.stopped_file).strip())
    if stopped is None:
        return None
    reason, what = stopped
    ended = sum(trial.has_ended for trial in trials)
    return Ending(reason=reason, why=f"{what} after {ended} of {counted(spec.trials, 'trial')}")


def note_stopped(directory: RunDirectory, why: Stopped | None) -> None:
    """Keep in a run directory what stopped its driver; None once a driver runs. A full disk costs the note alone."""
    with suppress(OSError):
        if why is None:
            directory.stopped_file.unlink(missing_ok=True)
        else:
            replace_text(directory.stopped_file, f"{why}\n")


def extended_rule(spec: SearchSpec, directory: RunDirectory, trials: Collection[TrialSummary]) -> StopRule:
    """Return the rule by which a search ends that gets more trials: only those count that come after `trials`.

    If the best trial was re-evaluated, a gain must exceed the standard error of its fresh runs, too.
    """
    found = read_reevaluation(spec, directory.reevaluation, trials)
    error = None if found is None or found.verdict is None else found.verdict.error
    since = max((trial.number + 1 for trial in trials), default=0)
    least_gain = error if error is not None and error > spec.value_resolution else None
    return spec.stop.model_copy(update={"since": since, "least_gain": least_gain})


def _target_reached(spec: SearchSpec, trials: Collection[TrialSummary]) -> Ending | None:
    target, by = spec.stop.target, spec.aim.chosen_by or FINAL_ACCURACY
    if target is None:
        return None
    known = {trial.number for trial in trials}
    fit = sorted(eligible(trials, spec.aim), key=lambda trial: trial.number)
    for trial in fit:
        good = by.goodness(trial)
        if trial.number >= spec.stop.since and good is not None and good >= by.signed(target):
            if not known.issuperset(range(trial.number)):
                return None
            least = "least" if by.direction == "maximize" else "most"
            came = f"trial {trial.number} came to {by.text(by.value(trial))}"
            return Ending(reason="target", why=f"{came}, at {least} {target:g} {by.unit}".rstrip())
    return None


def _patience_lost(spec: SearchSpec, trials: Iterable[TrialSummary]) -> Ending | None:
    """Return the end of a search whose trials, by number, brought no gain for too long; None if it goes on."""
    best, row, noise, by = None, 0, spec.noise, spec.aim.chosen_by or FINAL_ACCURACY
    fit = {trial.number for trial in eligible(trials, spec.aim)}
    for trial in _first_ended(trials):
        good = by.goodness(trial) if trial.number in fit else None
        if good is not None and (best is None or good > best + noise + _ROUNDING):
            best, row = good, 0
        elif best is not None and trial.status != "failed" and trial.number >= spec.stop.since:
            row += 1
        if row == spec.stop.patience:
            where = f"{counted(row, 'trial')} in a row, up to trial {trial.number}"
            gain = f"did not move the best by more than {noise:.2f} {by.difference}"
            return Ending(reason="patience", why=f"{where}, {gain}")
    return None


def _first_ended(trials: Iterable[TrialSummary]) -> Iterator[TrialSummary]:
    """Yield the trials by number, up to the first number whose trial has not ended."""
    by_number = {trial.number: trial for trial in trials}
    for number in range(len(by_number)):
        trial = by_number.get(number)
        if trial is None or not trial.has_ended:
            return
        yield trial
