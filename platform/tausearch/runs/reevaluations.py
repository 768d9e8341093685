"""The re-evaluations of a search: its best trials run again on fresh seeds and validation splits, to choose among them.

They have a folder and a record of their own in the run directory, so readers of the trials never meet them. The two
records alone decide which re-evaluations run next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, FiniteFloat

from checked_input.ranges import ROUNDS, SEED
from checked_input.schema import Strict
from tausearch.runs.directories import ReevaluationDirectory, RunDirectory, reevaluation_name
from tausearch.runs.objectives.aim import best_trial, eligible
from tausearch.runs.objectives.objective import Objective
from tausearch.runs.parts.scores import Scales
from tausearch.runs.parts.spec import MultiSearchSpec
from tausearch.runs.parts.trials import MultiTrial, is_start, recorded_trials, rescored, scales_of
from tausearch.runs.racing import Race, Verdict, lead, race, verdict
from tausearch.runs.record.files import place_aside
from tausearch.runs.record.record import Record
from tausearch.runs.specs.run import Role, RunSpec, ValueLabels
from tausearch.runs.specs.search import Reevaluate, SearchSpec, SpecOfSearch
from tausearch.runs.storage import run_command
from tausearch.runs.trials import TrialSummary
from trainables.errors import InputError

_MOST = int(ROUNDS.high)  # a re-evaluation's number is that of its trial times this, and its round
_ROUNDING = 1e-9  # a lead of exactly one image is none


class ReevaluationSpec(SpecOfSearch):
    """The re-evaluations of a search as a run; made from the search's specification, never written.

    They are numbered so that more trials, candidates or rounds change no number. Round k has the seed of the search
    plus k + 1, for the trial and for its validation split.
    """

    role: ClassVar[Role] = "reevaluation"
    purpose: Literal["search"] = "search"
    reevaluate: Reevaluate

    @classmethod
    def of(cls, search: SearchSpec) -> ReevaluationSpec:
        """Return the re-evaluations of a search that asks for them."""
        shared = {name: getattr(search, name) for name in (*RunSpec.model_fields, "reevaluate")}
        own = {"name": reevaluation_name(search.name), "trials": reevaluations_of(search), "search": search}
        return cls(**{**shared, **own})

    @property
    def value_labels(self) -> ValueLabels:
        """What the value by which trials are compared is called, as in the search."""
        return self.search.value_labels

    @property
    def step_noun(self) -> str:
        """The word for a step of a trial."""
        return self.search.step_noun

    def number(self, candidate: int, round_: int) -> int:
        """Return the number of a re-evaluation."""
        return candidate * _MOST + round_

    def candidate(self, number: int) -> int:
        """Return the number of the trial that runs again."""
        return number // _MOST

    def round(self, number: int) -> int:
        """Return the round of a re-evaluation, from 0."""
        return number % _MOST

    def extra_columns(self, number: int) -> dict[str, Any]:
        """Return further columns of a re-evaluation in the record and in MLflow."""
        return {"role": self.role, "reevaluates": self.candidate(number), "split_seed": self.split_of(number)}

    def label(self, number: int) -> str:
        """Return the name of a re-evaluation for people."""
        return f"re-evaluation of trial {self.candidate(number)}, seed {self.seed_of(number)}"

    def file_name(self, number: int) -> str:
        """Return the name of a re-evaluation without spaces."""
        return f"trial-{self.candidate(number)}-seed-{self.seed_of(number)}"

    def seed_of(self, number: int) -> int:
        """Return the seed of a re-evaluation, which never equals that of the search."""
        return int((self.search.seed + 1 + self.round(number)) % (SEED.high + 1))

    def split_of(self, number: int) -> int:
        """Return the seed of the validation split of a re-evaluation."""
        return self.seed_of(number)


def reevaluations_of(search: RunSpec) -> int:
    """Return the largest number of re-evaluations of a run, if none is eliminated and the start is a further one."""
    if not isinstance(search, SearchSpec) or search.reevaluate is None:
        return 0
    asked = search.reevaluate
    return min(asked.best + asked.start, search.trials) * asked.runs


@dataclass(frozen=True)
class Reevaluation:
    """The state of a search's re-evaluation.

    Attributes:
        spec: The re-evaluations as a run.
        race: The race of the candidates, by the score of the search's aim: more is better.
        verdict: The winner; None before the race is over, or if no candidate is left. Its mean is of the metric by
            which the search chooses, in its unit.
        runs: All re-evaluations that have started, those of former candidates included.
    """

    spec: ReevaluationSpec
    race: Race
    verdict: Verdict | None
    runs: tuple[TrialSummary, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the rounds, for trials and validation splits."""
        return tuple(self.spec.seed_of(k) for k in range(self.race.rounds))

    @property
    def left(self) -> int:
        """Largest number of runs that it needs yet, if all trials of the search have ended."""
        alive = self.race.alive
        ended = [trial for trial in self.counted if trial.has_ended and self.spec.candidate(trial.number) in alive]
        return len(alive) * self.race.rounds - len(ended)

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `tausearch status NAME --format json` prints."""
        values = {each: self.values(each) for each in self.race.candidates}
        aimed = {each: {"objectives": self.means(each)} if self.spec.search.objectives else {} for each in values}
        return {
            "over": self.race.over,
            "seeds": list(self.seeds),
            "verdict": None if self.verdict is None else asdict(self.verdict),
            "candidates": [
                {"trial": k, "state": self.state_of(k), "values": own, **aimed[k]} for k, own in values.items()
            ],
        }

    @property
    def measure(self) -> Objective | None:
        """The objective by which candidates compare; None for the final accuracy, or the score of the knee."""
        return self.spec.search.aim.chosen_by

    @property
    def unit(self) -> str:
        """The unit of the candidates' values; the score of a knee has none."""
        if self.spec.search.aim.by_knee:
            return ""
        return self.spec.search.value_labels.unit if self.measure is None else self.measure.unit

    @property
    def difference(self) -> str:
        """The unit of their differences."""
        if self.spec.search.aim.by_knee:
            return ""
        return self.spec.search.value_labels.difference if self.measure is None else self.measure.difference

    def values(self, candidate: int) -> list[float]:
        """Return the values of a candidate, round by round, in the unit of the metric."""
        found = self.race.values.get(candidate, ())
        return list(found if self.measure is None else map(self.measure.signed, found))

    def means(self, candidate: int) -> dict[str, float]:
        """Return objective to its mean over the complete fresh runs of a candidate."""
        return self.spec.search.aim.means(self.runs_of(candidate))

    def runs_of(self, candidate: int) -> list[TrialSummary]:
        """Return the complete fresh runs of a candidate."""
        complete = [trial for trial in self.counted if trial.status == "complete"]
        return [trial for trial in complete if self.spec.candidate(trial.number) == candidate]

    @property
    def counted(self) -> list[TrialSummary]:
        """The runs of the race, without those of former candidates and of rounds that are asked for no more."""
        within = [trial for trial in self.runs if self.spec.round(trial.number) < self.race.rounds]
        return [trial for trial in within if self.spec.candidate(trial.number) in self.race.candidates]

    @property
    def accuracy(self) -> float | None:
        """Mean final accuracy over the fresh runs of the chosen trial, percent; None without a verdict."""
        if self.verdict is None:
            return None
        if self.measure is None and not self.spec.search.aim.by_knee:
            return self.verdict.mean
        values = [trial.value for trial in self.runs_of(self.verdict.chosen) if trial.value is not None]
        return fmean(values) if values else None

    def violated_constraints(self) -> list[str]:
        """Return the bounds of the search that the means over the chosen trial's fresh runs break, with these."""
        trials = [] if self.verdict is None else self.runs_of(self.verdict.chosen)
        means = [(each, each.mean(trials)) for each in self.spec.search.constraints]
        return [f"{each}: {mean:.4g}" for each, mean in means if mean is not None and not each.allows(mean)]

    def state_of(self, candidate: int) -> str:
        """Return the state of a candidate in a word or two."""
        if candidate in self.race.out:
            return "out"
        if candidate in self.race.eliminated:
            return f"eliminated after {self.race.eliminated[candidate]}"
        if self.verdict is None:
            return "alive"
        if self.verdict.chosen == candidate:
            return "chosen"
        return "equal" if self.race.mean(candidate) == self.race.mean(self.verdict.chosen) else "behind"


def reevaluation_of(
    spec: ReevaluationSpec, trials: Iterable[TrialSummary], reevaluations: Sequence[TrialSummary]
) -> Reevaluation:
    """Return the state of a re-evaluation from the trials of its search and the re-evaluations that have started.

    The candidates are the best complete trials so far that keep all constraints, and the start if it is such a trial.
    """
    table = list(trials)
    # The search may have moved its scales since.
    reevaluations = rescored(reevaluations, scales_within(spec.search, table))
    fit = eligible(table, spec.search.aim)
    candidates = [trial.number for trial in fit[: spec.reevaluate.best]]
    start = start_trial(spec.search, fit) if spec.reevaluate.start else None
    if start is not None and start.number not in candidates:
        candidates.append(start.number)
    score = spec.search.aim.score(fit)
    known = {
        (spec.candidate(trial.number), spec.round(trial.number)): score(trial) if trial.status == "complete" else None
        for trial in reevaluations
        if trial.has_ended
    }
    state = race(candidates, spec.reevaluate.runs, known, spec.search.value_resolution)
    found, by = verdict(state, spec.search.value_resolution), spec.search.aim.chosen_by
    if found is not None and by is not None:
        found = replace(found, mean=by.signed(found.mean))
    return Reevaluation(spec, state, found, tuple(reevaluations))


def start_trial(search: SearchSpec, trials: Iterable[TrialSummary]) -> TrialSummary | None:
    """Return the best finished trial at the start of a search; None without one, as in a grid without the start."""
    return best_trial(trial for trial in trials if is_start(search, trial)) if search.start else None


class Gain(Strict):
    """What a search gained over its start, in what it chooses by: points of final accuracy by default."""

    start: int  # number of the start's trial
    chosen: int  # number of the chosen trial
    points: FiniteFloat  # how much better the chosen trial is, over the fresh runs of both if `fresh`
    error: FiniteFloat | None  # standard error of the difference; None if a single run of each was compared
    fresh: bool  # whether both were re-evaluated
    better: bool  # whether the chosen trial is another and leads by more than the error, or one image without an error
    unit: Annotated[str, Field(exclude_if=lambda unit: unit == "points")] = "points"  # of the difference

    def __str__(self) -> str:
        if self.chosen == self.start:
            return "no better than the start, which is chosen"
        points = f"{self.points:+.2f}{'' if self.error is None else f' ± {self.error:.2f}'} {self.unit}".rstrip()
        over = f"{points} over the start's fresh runs" if self.fresh else points
        if self.better:
            return over
        few = "at most one validation image" if self.error is None else "within the error"
        return f"{over}{f', {few}' * (self.points > 0)}: no better than the start"


def gain_of(
    search: SearchSpec, trials: Iterable[TrialSummary], chosen: TrialSummary | None, found: Reevaluation | None
) -> Gain | None:
    """Return what a search gained over its start; None if nothing is chosen or the start has no value.

    The score of a knee depends on the front and has no unit, so a search that chooses the knee has no gain.
    """
    start, aim, noise = start_trial(search, trials), search.aim, search.value_resolution
    if chosen is None or start is None or aim.by_knee:
        return None
    race, score = None if found is None or found.verdict is None else found.race, aim.score(())
    if race is not None and {start.number, chosen.number} <= set(race.values):
        points, error = lead(race, chosen.number, start.number, noise)
    else:
        before, after = score(start), score(chosen)
        if before is None or after is None:
            return None
        points, error, race = after - before, None, None
    better = chosen.number != start.number and points > (noise if error is None else error) + _ROUNDING
    unit = search.value_labels.difference if aim.chosen_by is None else aim.chosen_by.difference
    return Gain(
        start=start.number,
        chosen=chosen.number,
        points=points,
        error=error,
        fresh=race is not None,
        better=better,
        unit=unit,
    )


def read_reevaluation(
    search: SearchSpec, directory: ReevaluationDirectory, trials: Iterable[TrialSummary]
) -> Reevaluation | None:
    """Return the state of a search's re-evaluation, None without one; raises an `InputError` for a wrong record."""
    if search.reevaluate is None:
        return None
    spec, known = ReevaluationSpec.of(search), {trial.number: trial for trial in trials}
    reevaluations = recorded_trials(spec, Record(directory.record))
    resume = run_command("resume", search.name, directory.path.parent.parent)
    for trial in reevaluations:
        if fault := _foreign(spec, trial, known, resume):
            raise InputError(f"record {directory.record}: re-evaluation {trial.number} is not of this search: {fault}")
    return reevaluation_of(spec, known.values(), reevaluations)


def scales_within(search: SearchSpec, trials: Iterable[TrialSummary]) -> Scales | None:
    """Return the scales of a search on several benchmarks, for its re-evaluations, too; None for a search on one."""
    if not isinstance(search, MultiSearchSpec):
        return None
    return scales_of(search, [trial for trial in trials if isinstance(trial, MultiTrial)])


def set_aside_orphans(directory: RunDirectory, count: int = 1) -> dict[Path, str]:
    """Rename re-evaluations whose trial, of `count` parts, the record lost; return file to a line about it."""
    lines = {}
    known = {trial.number // count for trial in Record(directory.record).trials()}
    reevaluated = Record(directory.reevaluation.record)
    orphans = [trial.number for trial in reevaluated.trials() if trial.number // count // _MOST not in known]
    for path in dict.fromkeys(reevaluated.file_of(number) for number in orphans):
        path.rename(place_aside(path))
        lines[path] = f"record file {path}: is a re-evaluation of a trial that is run again; it was put aside"
    return lines


def _foreign(
    spec: ReevaluationSpec, trial: TrialSummary, trials: Mapping[int, TrialSummary], resume: str
) -> str | None:
    """Return why a re-evaluation cannot belong to the search; None if it can."""
    reevaluated = trials.get(spec.candidate(trial.number))
    if reevaluated is None:
        mend = f"`{resume} --without-damaged` puts it aside"
        return f"the search has no trial {spec.candidate(trial.number)}; {mend}"
    if trial.seed != spec.seed_of(trial.number):
        return f"its seed is {trial.seed}, must be {spec.seed_of(trial.number)}"
    if trial.hyperparameters != reevaluated.hyperparameters:
        return f"its hyperparameters are not those of trial {reevaluated.number}"
    return f"it has {trial.tasks_done} tasks of {spec.steps}" if trial.tasks_done > spec.steps else None
