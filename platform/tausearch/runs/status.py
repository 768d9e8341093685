"""The status of runs, read from their directories alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from checked_input.names import counted
from search_spaces import Scalar
from tausearch.runs.choices import whole_choice
from tausearch.runs.constraints import no_feasible_trial_reason
from tausearch.runs.directories import RunDirectory
from tausearch.runs.ending import Ending, ending_of, planned_trials
from tausearch.runs.guards import is_driven
from tausearch.runs.objectives.aim import best_trial
from tausearch.runs.parts.reading import read_spec
from tausearch.runs.parts.spec import parts_of
from tausearch.runs.parts.trials import combine_parts
from tausearch.runs.record.record import Record
from tausearch.runs.reevaluations import Gain, Reevaluation, gain_of, read_reevaluation
from tausearch.runs.results import Score, summarise
from tausearch.runs.search_analysis import rank_correlations
from tausearch.runs.specs.kinds import AnySpec
from tausearch.runs.specs.run import RunSpec
from tausearch.runs.specs.search import SearchSpec
from tausearch.runs.trials import STATUSES, TrialSummary, at_rest
from trainables.errors import InputError

RunState = Literal["running", "finished", "stopped"]


@dataclass(frozen=True)
class RunStatus:
    """The status of a run."""

    spec: AnySpec
    directory: RunDirectory
    state: RunState  # "running" while a process drives it, "finished" once every trial has ended, else "stopped"
    counts: dict[str, int]  # by status; "pending" trials have not ended and do not run
    trials: list[TrialSummary]  # all that have started
    best: TrialSummary | None  # the chosen one, see `chosen_trial`; of a final run, which chooses none, its best seed
    note: str = ""
    reevaluation: Reevaluation | None = None
    planned: int = 0  # trials in the end; a search that ends early has those that have started
    ending: Ending | None = None  # why the trials ended or the driver stopped; None if that is not known

    @property
    def accuracy(self) -> float | None:
        """Final accuracy of the chosen trial, percent; the mean over its fresh runs once it is re-evaluated."""
        if self.reevaluation is None or self.reevaluation.verdict is None:
            return None if self.best is None else self.best.value
        return self.reevaluation.accuracy

    @property
    def goodness(self) -> float:
        """How good the chosen trial is by the metric that chose it, more is better; 0 without one.

        A trial that a knee chose counts with its accuracy.
        """
        by = self.spec.aim.chosen_by if isinstance(self.spec, SearchSpec) else None
        verdict = None if self.reevaluation is None else self.reevaluation.verdict
        if by is None or self.best is None:
            return self.accuracy or 0.0
        return by.signed(verdict.mean) if verdict is not None else by.goodness(self.best) or 0.0

    @cached_property
    def rank_correlations(self) -> dict[int, float]:
        """See `search_analysis.rank_correlations`; empty for a final run."""
        if self.spec.purpose == "final":
            return {}
        return rank_correlations(self.trials, self.spec.steps, self.spec.metrics)

    @cached_property
    def gain(self) -> Gain | None:
        """See `Gain`; None for a final run, or before the start and another trial have finished."""
        if self.spec.purpose == "final":
            return None
        return gain_of(self.spec, self.trials, self.best, self.reevaluation)

    @property
    def score(self) -> Score | None:
        """Mean and deviation of the final accuracy over the finished seeds; None for a search or without such seeds."""
        values = [trial.value for trial in self.trials if trial.status == "complete" and trial.value is not None]
        return Score.of(values) if values and self.spec.purpose == "final" else None

    @property
    def why_nothing_chosen(self) -> str:
        """See `constraints.no_feasible_trial_reason`; for a run without a chosen trial."""
        return no_feasible_trial_reason(self.trials, self.spec.constraints, self.spec.value_labels.unit)

    @property
    def front(self) -> list[TrialSummary]:
        """See `Aim.front`; empty for a final run."""
        return self.spec.aim.front(self.trials) if self.spec.purpose == "search" else []

    @property
    def n_ended(self) -> int:
        """Number of trials that have ended, with or without a value."""
        return self.planned - self.counts["running"] - self.counts["pending"]

    def as_dict(self) -> dict[str, Any]:
        """Return the form that `tausearch status NAME --format json` prints, without absent parts."""
        overrides = self.spec.overrides if self.spec.purpose == "final" else {}
        return {
            "name": self.spec.name,
            "purpose": self.spec.purpose,
            "benchmark": self.spec.benchmark,
            "method": self.spec.method,
            "state": self.state,
            "counts": self.counts,
            "best": self.best_as_dict(),
            **({"overrides": overrides} if overrides else {}),
            **({"device": self.spec.device} if self.spec.device else {}),
            **({"address": self.spec.address} if self.spec.address else {}),
            **({"ended": self.ending.model_dump()} if self.ending is not None else {}),
            **({"gain": self.gain.model_dump()} if self.gain is not None else {}),
            **({"reevaluation": self.reevaluation.as_dict()} if self.reevaluation is not None else {}),
            **({"summary": summarise(self.trials)} if self.score is not None else {}),
            **({"constraints": [str(each) for each in self.spec.constraints]} if self.spec.constraints else {}),
            **self._aims_as_dict(),
            **self.spec.tasks_as_dict(),
            **({"note": self.note} if self.note else {}),
        }

    def best_as_dict(self) -> dict[str, Any] | None:
        """Return the plain form of the chosen trial; None for a final run, in which test images would choose a seed."""
        if self.best is None or self.spec.purpose == "final":
            return None
        return chosen_as_dict(self.best, self.reevaluation, whole_choice(self.directory, self.best))

    def _aims_as_dict(self) -> dict[str, Any]:
        """Return the plain form of the objectives and of the values of the chosen trial in them."""
        if self.spec.purpose == "final" or not self.spec.objectives:
            return {}
        aim, best = self.spec.aim, self.best
        return {
            "objectives": {each.metric: each.direction for each in aim.objectives},
            "chosen_by": aim.metric,
            "values": None if best is None else aim.objective_values(best),
            "front": aim.front_as_dicts(self.trials),
        }


def chosen_as_dict(
    trial: TrialSummary, reevaluation: Reevaluation | None, hyperparameters: Mapping[str, Scalar]
) -> dict[str, Any]:
    """Return the plain form of the trial that a search has chosen, which all commands print as `best`."""
    again = {} if reevaluation is None or reevaluation.verdict is None else {"reevaluated": reevaluation.accuracy}
    return {"trial": trial.number, "value": trial.value, **again, "hyperparameters": hyperparameters}


def read_status(directory: RunDirectory) -> RunStatus:
    """Return the status of one run; raises an `InputError` if there is none, or a file is damaged or another run's."""
    spec, driven = read_spec(directory), is_driven(directory)
    trials = read_trials(spec, directory)
    if not driven:
        trials = at_rest(trials)
    counts: dict[str, int] = {name: sum(t.status == name for t in trials) for name in STATUSES}
    planned = planned_trials(spec, trials)
    counts["pending"] = planned - sum(n for name, n in counts.items() if name != "pending")
    reevaluation, chosen = None, best_trial(trials)
    if spec.purpose == "search":
        reevaluation = read_reevaluation(spec, directory.reevaluation, trials)
        chosen = chosen_trial(spec, trials, reevaluation)
    ended = counts["pending"] == 0 and (reevaluation is None or reevaluation.race.over)
    state: RunState = "running" if driven else "finished" if ended else "stopped"
    ending = None if driven and counts["running"] + counts["pending"] else ending_of(spec, directory, trials)
    return RunStatus(spec, directory, state, counts, trials, chosen, directory.note, reevaluation, planned, ending)


def chosen_trial(
    spec: SearchSpec, trials: Iterable[TrialSummary], reevaluation: Reevaluation | None
) -> TrialSummary | None:
    """Return the trial that the re-evaluation chose; before it is over, the best trial that keeps all constraints."""
    if reevaluation is None or reevaluation.verdict is None:
        return best_trial(trials, spec.aim)
    return next(trial for trial in trials if trial.number == reevaluation.verdict.chosen)


def read_trials(spec: RunSpec, directory: RunDirectory) -> list[TrialSummary]:
    """Return the trials of a run by number; raises an `InputError` if a file is damaged or another run's."""
    trials, parts = Record(directory.record).trials(), parts_of(spec)
    for trial in trials:
        if fault := _foreign(parts or spec, trial):
            raise InputError(f"record {directory.record}: trial {trial.number} is not of this run: {fault}")
    return trials if parts is None else list(combine_parts(parts, trials))


def _foreign(spec: RunSpec, trial: TrialSummary) -> str | None:
    """Return why a trial cannot belong to the run; None if it can."""
    if trial.number >= spec.trials:
        return f"run.yaml asks for {counted(spec.trials, 'trial')}"
    if trial.seed != (seed := spec.seed_of(trial.number)):
        return f"its seed is {trial.seed}, must be {seed}"
    if missing := sorted(set(spec.dimensions) - set(trial.hyperparameters)):
        return f"it has no {missing[0]!r}"
    if trial.tasks_done > (steps := spec.steps_of(trial.number)):
        return f"it has {trial.tasks_done} tasks of {steps}"
    if spec.purpose == "search" and any(spec.metrics.average_accuracy not in row for row in trial.rows):
        return f"a task has no {spec.metrics.average_accuracy!r}"
    return None
