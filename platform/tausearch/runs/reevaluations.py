"""The re-evaluations of a search: its best trials run again on fresh seeds and validation splits, to choose among them.

They lie in a folder of their own in the run directory, with a record like that of trials, so that nobody who reads the
trials of a search meets a re-evaluation. What is to be run follows from the two records alone (`tausearch.runs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from checked_input.bounds import ROUNDS, SEED
from search_spaces.schema import Dimension
from tausearch.runs.constraints import Constraint, eligible
from tausearch.runs.directories import ReevaluationDirectory, RunDirectory, trial_name
from tausearch.runs.racing import Known, Race, Verdict, race, verdict
from tausearch.runs.record import Record
from tausearch.runs.spec import Role, RunSpec, SearchSpec
from tausearch.runs.trials import TrialSummary
from trainables.errors import InputError

_MOST = int(ROUNDS.high)  # a re-evaluation's number is that of its trial times this, and its round


class ReevaluationSpec(RunSpec):
    """The re-evaluations of a search as a run to be driven; made of the search's specification, never written.

    Its trials are re-evaluations, numbered so that more trials, candidates or rounds change no number. Round k has the
    seed of the search plus k + 1, for the trial and for its validation split.

    Attributes:
        seed: The seed of the search.
        space: The hyperparameters of the search, each with its dimension.
        constraints: Bounds that a configuration must keep to be a candidate.
        best: The number of candidates.
        rounds: How often each candidate runs.
    """

    purpose: Literal["search"] = "search"
    seed: int
    space: dict[str, Dimension]
    constraints: tuple[Constraint, ...]
    best: int
    rounds: int

    @classmethod
    def of(cls, search: SearchSpec) -> ReevaluationSpec:
        """Return the re-evaluations of a search that asks for them."""
        assert search.reevaluate is not None, "whoever asks has looked"
        shared = {name: getattr(search, name) for name in (*RunSpec.model_fields, "seed", "space", "constraints")}
        own = {"name": f"{search.name}.reevaluation", "trials": reevaluations_of(search)}
        return cls(**{**shared, **own, "best": search.reevaluate.best, "rounds": search.reevaluate.runs})

    @property
    def dimensions(self) -> Mapping[str, Dimension]:
        """The hyperparameters in which its trials differ, each with its dimension."""
        return self.space

    @property
    def role(self) -> Role:
        """What each of its trials is to it."""
        return "reevaluation"

    @property
    def run_name(self) -> str:
        """The name of the search."""
        return self.name.removesuffix(".reevaluation")

    def number(self, candidate: int, round_: int) -> int:
        """Return the number of a re-evaluation."""
        return candidate * _MOST + round_

    def candidate(self, number: int) -> int:
        """Return the number of the trial that a re-evaluation re-evaluates."""
        return number // _MOST

    def round(self, number: int) -> int:
        """Return the round of a re-evaluation, from 0."""
        return number % _MOST

    def about(self, number: int) -> dict[str, Any]:
        """Return which trial a re-evaluation re-evaluates, and how."""
        return {"role": self.role, "reevaluates": self.candidate(number), "split_seed": self.split_of(number)}

    def label(self, number: int) -> str:
        """Return what a person calls a re-evaluation."""
        return f"re-evaluation of trial {self.candidate(number)}, seed {self.seed_of(number)}"

    def file_name(self, number: int) -> str:
        """Return what a re-evaluation is called where a name has no spaces."""
        return f"trial-{self.candidate(number)}-seed-{self.seed_of(number)}"

    def seed_of(self, number: int) -> int:
        """Return the seed of a re-evaluation; none of them is that of the search."""
        return int((self.seed + 1 + self.round(number)) % (SEED.high + 1))

    def split_of(self, number: int) -> int:
        """Return the seed of the validation split of a re-evaluation."""
        return self.seed_of(number)


def reevaluations_of(search: RunSpec) -> int:
    """Return how many re-evaluations a run has if none is eliminated."""
    if not isinstance(search, SearchSpec) or search.reevaluate is None:
        return 0
    return min(search.reevaluate.best, search.trials) * search.reevaluate.runs


@dataclass(frozen=True)
class Reevaluation:
    """How far the re-evaluation of a search is, and what it says.

    Attributes:
        spec: What is to be run.
        race: Where it stands.
        verdict: Who is chosen; None before that is known, or if no candidate is left.
        runs: All re-evaluations that have started, of former candidates too.
    """

    spec: ReevaluationSpec
    race: Race
    verdict: Verdict | None
    runs: tuple[TrialSummary, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of its rounds, for trials and validation splits."""
        return tuple(self.spec.seed_of(k) for k in range(self.spec.rounds))

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `tausearch status NAME --json` prints."""
        return {
            "over": self.race.over,
            "seeds": list(self.seeds),
            "verdict": None if self.verdict is None else asdict(self.verdict),
            "candidates": [self._plain(candidate) for candidate in self.race.candidates],
        }

    def state_of(self, candidate: int) -> str:
        """Say in a word or two what has become of a candidate."""
        if candidate in self.race.out:
            return "out"
        if candidate in self.race.eliminated:
            return f"eliminated after {self.race.eliminated[candidate]}"
        if self.verdict is None:
            return "alive"
        if self.verdict.chosen == candidate:
            return "chosen"
        return "equal" if self.race.mean(candidate) == self.race.mean(self.verdict.chosen) else "behind"

    def _plain(self, candidate: int) -> dict[str, Any]:
        values = list(self.race.values.get(candidate, ()))
        return {"trial": candidate, "state": self.state_of(candidate), "values": values}


def reevaluation_of(
    spec: ReevaluationSpec, trials: Iterable[TrialSummary], runs: Sequence[TrialSummary]
) -> Reevaluation:
    """Work out where the re-evaluation of a search stands.

    Args:
        spec: The re-evaluations that are asked for.
        trials: The trials of the search.
        runs: The re-evaluations that have started.

    Returns:
        Where it stands; its candidates are the best complete trials so far that keep all constraints.
    """
    candidates = [trial.number for trial in eligible(trials, spec.constraints)[: spec.best]]
    standing = race(candidates, spec.rounds, known_of(spec, runs), spec.resolution)
    return Reevaluation(spec, standing, verdict(standing, spec.resolution), tuple(runs))


def known_of(spec: ReevaluationSpec, runs: Iterable[TrialSummary]) -> Known:
    """Return what re-evaluations that have ended have reached; one that diverged or failed has no value."""
    ended = [run for run in runs if run.status not in ("running", "pending")]
    return {
        (spec.candidate(run.number), spec.round(run.number)): run.value if run.status == "complete" else None
        for run in ended
    }


def read_reevaluation(
    search: SearchSpec, directory: ReevaluationDirectory, trials: Iterable[TrialSummary]
) -> Reevaluation | None:
    """Read how far the re-evaluation of a search is.

    Args:
        search: The search.
        directory: The folder of its re-evaluations.
        trials: The trials of the search.

    Returns:
        Where it stands; None if the search asks for none.

    Raises:
        InputError: If a file of the record is damaged, or is not of this search.
    """
    if search.reevaluate is None:
        return None
    spec, known = ReevaluationSpec.of(search), {trial.number: trial for trial in trials}
    runs = Record(directory.record).trials()
    for run in runs:
        if fault := _foreign(spec, run, known):
            raise InputError(f"record {directory.record}: re-evaluation {run.number} is not of this search: {fault}")
    return reevaluation_of(spec, known.values(), runs)


def set_aside_orphans(directory: RunDirectory) -> list[str]:
    """Rename the re-evaluations of trials that the record has no more: run again, they may be others.

    Returns:
        A line for each.
    """
    known, lines = {trial.number for trial in Record(directory.record).trials()}, []
    for run in Record(directory.reevaluation.record).trials():
        if run.number // _MOST not in known:
            path = directory.reevaluation.record / f"{trial_name(run.number)}.parquet"
            path.rename(path.with_name(f".{path.name}.damaged"))
            lines.append(f"record file {path}: is a re-evaluation of a trial that is run again; it was put aside")
    return lines


def _foreign(spec: ReevaluationSpec, run: TrialSummary, trials: Mapping[int, TrialSummary]) -> str | None:
    """Say what a re-evaluation has that none of the search can have; None if there is nothing."""
    reevaluated = trials.get(spec.candidate(run.number))
    if reevaluated is None:
        mend = f"`tausearch resume {spec.run_name} --without-damaged` puts it aside"
        return f"the search has no trial {spec.candidate(run.number)}; {mend}"
    if run.seed != spec.seed_of(run.number):
        return f"its seed is {run.seed}, must be {spec.seed_of(run.number)}"
    if {**spec.fixed, **run.hyperparameters} != {**spec.fixed, **reevaluated.hyperparameters}:
        return f"its hyperparameters are not those of trial {reevaluated.number}"
    return f"it has {run.tasks_done} tasks of {spec.steps}" if run.tasks_done > spec.steps else None
