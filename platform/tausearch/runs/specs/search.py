"""The specification of a search, and of the runs that belong to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, FiniteFloat, NonNegativeInt, model_validator

from checked_input import ranges
from checked_input.schema import Strict
from search_spaces import Scalar
from search_spaces.schema import Dimension
from tausearch.runs.constraints import Constraint
from tausearch.runs.objectives.aim import Aim
from tausearch.runs.objectives.objective import KNEE, Objective
from tausearch.runs.specs.run import Role, RunSpec, Seed
from tausearch.runs.trials import TrialSummary

ALGORITHMS = ("tpe", "gp", "random", "grid")  # ours; others are named as `studies.algorithm_named` says
SCHEDULERS = ("none", "asha", "median")


class KnownPoint(Strict):
    """A point that a search tries because another search or the paper chose it (`--warm-start`)."""

    origin: str  # the search, file or table that it is from, in words
    point: dict[str, Scalar]  # a value for every searched hyperparameter
    misfits: tuple[str, ...] = ()  # values of the original configuration that did not fit the space, in words


class Reevaluate(Strict):
    """Re-evaluation before a search chooses: the `best` trials run `runs` times more, on fresh seeds and splits.

    With `start`, the start of the search runs with them, also where it is not among the best.
    """

    best: Annotated[int, AfterValidator(ranges.REEVALUATED.checked)]
    runs: Annotated[int, AfterValidator(ranges.ROUNDS.checked)]
    start: bool = False


class StopRule(Strict):
    """The rule by which a search ends before all of its trials were run; without numbers it never does."""

    patience: Annotated[int, AfterValidator(ranges.TRIALS.checked)] | None = None  # trials without a gain, in a row
    target: FiniteFloat | None = None  # the value at which it ends, in the unit of what the search chooses by
    since: NonNegativeInt = 0  # number of the first trial that counts: extending a search begins the count anew
    least_gain: Annotated[FiniteFloat, Field(ge=0)] | None = None  # points that make a gain; None: one image

    @property
    def never(self) -> bool:
        """Whether it never ends a search early."""
        return self.patience is None and self.target is None


class SearchSpec(RunSpec):
    """The specification of a search; see `RunSpec` for the other fields."""

    role: ClassVar[Role] = "trial"
    purpose: Literal["search"] = "search"
    algorithm: str = "tpe"  # what proposes the points; see `studies.algorithm_named`
    sampler_options: dict[str, Scalar] = {}  # arguments of the algorithm's sampler
    scheduler: str = "none"  # the rule that stops trials early; see `studies.schedulers.pruner_named`
    pruner_options: dict[str, Scalar] = {}  # arguments of the scheduler's pruner
    seed: Seed = 0  # the seed of the algorithm and of each trial
    space: dict[str, Dimension] = {}
    start: dict[str, Scalar] = {}  # the point to try first
    warm_start: tuple[KnownPoint, ...] = ()  # the points to try next, before the algorithm proposes any
    warm_start_from: tuple[str, ...] = ()  # where they are from, as the user named it; empty in 0.1.0
    constraints: tuple[Constraint, ...] = ()  # bounds that a configuration must keep to be chosen
    objectives: tuple[Objective, ...] = ()  # the metrics that it aims at; empty for the final accuracy alone
    prefer: str = KNEE  # with several objectives: the metric that chooses a point of the front, or "knee"
    reevaluate: Reevaluate | None = None  # None if the search does not re-evaluate
    stop: StopRule = StopRule()  # the rule that may end it before all trials were run

    @model_validator(mode="after")
    def _starts_in_its_space(self) -> SearchSpec:
        if missing := sorted(set(self.space) - set(self.start)):
            raise ValueError(f"start must have {missing[0]!r}")
        return self

    @property
    def dimensions(self) -> Mapping[str, Dimension]:
        """The hyperparameters in which its trials differ, each with its dimension."""
        return self.space

    @property
    def user_code_names(self) -> tuple[str, ...]:
        """The names that may stand for code of the user; most are the tool's own."""
        return (*super().user_code_names, self.algorithm, self.scheduler)

    def words(self, trial: TrialSummary) -> str:
        """Return the values of a finished trial by which it is chosen, with their units."""
        return self.aim.words(trial) if self.objectives else self.value_text(trial.value or 0.0)

    @property
    def chosen_by_name(self) -> str:
        """The name of what its trials are chosen by, as users give it."""
        return self.aim.name if self.objectives else self.value_labels.metric.removeprefix(f"{self.metrics.prefix}/")

    @property
    def has_own_scale(self) -> bool:
        """Whether its values depend on its other trials, so that those of two searches do not compare."""
        return self.aim.by_knee

    @property
    def worst(self) -> float:
        """The value of a diverged trial."""
        return 0.0

    @property
    def removability(self) -> bool:
        """Whether its trials measure what each task loses without its vector: a bound or an objective asks for it."""
        asked = [each.metric for each in self.constraints] + [each.metric for each in self.objectives]
        return any(metric in self.metrics.removability for metric in asked)

    @property
    def aim(self) -> Aim:
        """What it aims at, by which its trials compare."""
        return Aim(self.constraints, self.objectives, self.prefer)

    @property
    def value_resolution(self) -> float:
        """The step of the value by which a trial is chosen: that of one image for the final accuracy, else 0."""
        chosen_by = self.aim.chosen_by
        accuracy = not self.objectives or (chosen_by is not None and chosen_by.metric == self.metrics.final_accuracy)
        return self.accuracy_resolution if accuracy else 0.0

    @property
    def noise(self) -> float:
        """The gain that a value must exceed to count: its step, or the error of the best when extended."""
        return self.value_resolution if self.stop.least_gain is None else self.stop.least_gain

    @property
    def counting(self) -> int:
        """The number of trials that may bring a gain or none; the first of all is the best so far."""
        return self.trials - max(self.stop.since, 1)

    def seed_of(self, number: int) -> int:
        """Return the seed of the search, which all trials have."""
        return self.seed


class SpecOfSearch(RunSpec):
    """The specification of a run that belongs to a search: its re-evaluations, or the parts of its trials."""

    trials: int  # follows from those of the search, whose bound it may pass
    search: SearchSpec

    @property
    def dimensions(self) -> Mapping[str, Dimension]:
        """The hyperparameters in which the trials differ."""
        return self.search.space

    @property
    def removability(self) -> bool:
        """Whether the search's trials measure what each task loses without its vector."""
        return self.search.removability

    @property
    def run_name(self) -> str:
        """The name of the search."""
        return self.search.name
