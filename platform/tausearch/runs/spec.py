"""The specification of a search or a final run, and its `run.yaml`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, FiniteFloat, NonNegativeInt, PositiveInt, model_validator

from checked_input import bounds
from checked_input.schema import Strict
from checked_input.yaml_text import yaml_of
from search_spaces import Scalar
from search_spaces.schema import Choices, Dimension
from tausearch.runs.constraints import Constraint
from tausearch.runs.directories import RunDirectory
from tausearch.runs.objectives.aim import Aim
from tausearch.runs.objectives.objective import KNEE, Objective
from tausearch.runs.protocol import DataFacts, ExperimentProtocol, Resources
from tausearch.runs.storage import DEFAULT_CACHE_SIZE, replace_text
from tausearch.runs.trials import TrialSummary
from trainables.config import Purpose, TrialConfig
from trainables.metrics import MetricNames, names_of
from trainables.task_names import NamedTask, titles
from trainables.user_code import folders_of, is_code

ALGORITHMS = ("tpe", "gp", "random", "grid")  # ours; others are named as `studies.algorithm_named` says
SCHEDULERS = ("none", "asha", "median")
TrackerName = Literal["mlflow", "tensorboard"]
Seed = Annotated[int, AfterValidator(bounds.SEED.checked)]


class KnownPoint(Strict):
    """A point that a search tries because another search or the paper chose it (`--warm-start`)."""

    origin: str  # the search, file or table that it is from, in words
    point: dict[str, Scalar]  # a value for every searched hyperparameter
    misfits: tuple[str, ...] = ()  # values of the original configuration that did not fit the space, in words


class Reevaluate(Strict):
    """Re-evaluation before a search chooses: the `best` trials run `runs` times more, on fresh seeds and splits.

    With `start`, the start of the search runs with them, also where it is not among the best.
    """

    best: Annotated[int, AfterValidator(bounds.REEVALUATED.checked)]
    runs: Annotated[int, AfterValidator(bounds.ROUNDS.checked)]
    start: bool = False  # as in searches of earlier versions


class StopRule(Strict):
    """The rule by which a search ends before all of its trials were run; without numbers it never does.

    Attributes:
        patience: Number of trials in a row without a gain after which it ends.
        target: The value at which it ends, percent.
        since: Number of the first trial that counts: extending a search begins the count anew.
        least_gain: Points by which a value must exceed the best to be a gain; None for one image.
    """

    patience: Annotated[int, AfterValidator(bounds.TRIALS.checked)] | None = None
    target: FiniteFloat | None = None
    since: NonNegativeInt = 0
    least_gain: Annotated[FiniteFloat, Field(ge=0)] | None = None

    @property
    def never(self) -> bool:
        """Whether it never ends a search early."""
        return self.patience is None and self.target is None


class Retraining(Strict):
    """How a final run trains tasks of another one again, on a benchmark without some of its classes.

    Attributes:
        run: The other run.
        run_id: Its id.
        forgotten: The classes that are left out: places in the class order of the other run, from 1.
        kept: Number of first tasks that are taken over, because no image of these classes has reached them.
    """

    run: str
    run_id: str
    forgotten: tuple[PositiveInt, ...]
    kept: NonNegativeInt


Role = Literal["trial", "seed", "reevaluation", "part"]


class RunSpec(Strict):
    """The fields that the specifications of all kinds of runs share.

    Attributes:
        role: The kind of its trials.
        id: Unique over all storage roots, which names are not; a tracking server serves many roots.
        purpose: The split that its trials are judged on: "search" (validation) or "final" (test).
        benchmark: Name and options, as `trainables.data.BenchmarkRef` reads them.
        steps: Number of tasks per trial: T, or 1 for a joint method.
        cache_size: Bound on the size of the pre-consolidation cache, gigabytes; 0 turns the cache off.
        fixed: The hyperparameters that all trials have; all of them in a final run.
        tracking: The trackers that it is written to; None for MLflow alone. See `trackers`.
        tracking_uri: MLflow tracking URI; None for the default store in the storage root.
        address: Address of the Ray cluster that its last driver joined; None for a Ray of the driver's own.
        data_root: Folder of the published datasets.
        left_out: A line for each image that cannot be read and is left out (`--skip-broken`), and for classes in no
            task.
        with_bounds: Whether `probe` and `joint` are run after it, where they were not measured yet.
        tasks: The tasks of the benchmark by name. They follow from it, so `run.yaml` has them not; a file of their own
            spares the readers of a run a look at the images. Empty where the file is missing.
        version: The version of tausearch that made the run.
        code_digests: For each name of code of the user, the digest of its module's file when the run last started.
    """

    role: ClassVar[Role]
    name: str
    id: str = ""
    purpose: Purpose
    benchmark: str
    method: str
    protocol: ExperimentProtocol
    resources: Resources
    trials: Annotated[int, AfterValidator(bounds.TRIALS.checked)]
    steps: Annotated[int, AfterValidator(bounds.TASKS.checked)]
    cache_size: Annotated[float, AfterValidator(bounds.GIGABYTES.checked)] = DEFAULT_CACHE_SIZE
    fixed: dict[str, Scalar] = {}
    tracking: tuple[TrackerName, ...] | None = None
    tracking_uri: str | None = None
    address: str | None = None
    data_root: str | None = None
    data: DataFacts | None = None
    left_out: tuple[str, ...] = ()
    with_bounds: bool = False
    tasks: Annotated[tuple[NamedTask, ...], Field(exclude=True)] = ()
    version: str = Field(default_factory=lambda: version("tausearch"))
    code_digests: dict[str, str] = {}

    @property
    def metrics(self) -> MetricNames:
        """Names of the accuracies that its trials report."""
        return names_of(self.purpose)

    @property
    def code(self) -> tuple[str, ...]:
        """The code of the user, `MODULE:NAME`, that its trials import."""
        return tuple(dict.fromkeys(filter(is_code, self.names)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names that may stand for code of the user; most are the tool's own."""
        return (self.benchmark.partition("?")[0], self.method, self.protocol.backbone, *self._texts)

    @property
    def _texts(self) -> Iterator[str]:
        """The values of hyperparameters that are texts, of which some name code, such as a curvature."""
        searched = (value for each in self.dimensions.values() if isinstance(each, Choices) for value in each.choices)
        yield from (value for value in (*self.fixed.values(), *searched) if isinstance(value, str))

    @property
    def run_name(self) -> str:
        """The name of the run directory; re-evaluations are in that of their search."""
        return self.name

    @property
    def trackers(self) -> tuple[TrackerName, ...]:
        """The trackers that the run is written to."""
        return ("mlflow",) if self.tracking is None else self.tracking

    @property
    def resolution(self) -> float:
        """The smallest step of an accuracy, percent: one image; 0 where their number is not known."""
        return 0.0 if self.data is None else 100.0 / self.data.evaluation

    @property
    def value_metric(self) -> str:
        """The name of the value by which trials are compared."""
        return self.metrics.final_accuracy

    @property
    def value_title(self) -> str:
        """The title of the value in tables."""
        return f"{self.metrics.prefix} accuracy"

    @property
    def value_name(self) -> str:
        """The value in captions."""
        return "Final accuracy"

    @property
    def value_axis(self) -> str:
        """The value at an axis, with its unit."""
        return "final accuracy (%)"

    @property
    def value_unit(self) -> str:
        """The unit of the value."""
        return "%"

    @property
    def device(self) -> str:
        """Device and precision of a trial in words, and why; empty where there is no GPU to speak of."""
        return self.resources.words(self.protocol.precision)

    def value_text(self, value: float | None, digits: int = 2) -> str:
        """Return the value of a trial with its unit."""
        return "-" if value is None else f"{value:.{digits}f} {self.value_unit}"

    @property
    def step_name(self) -> str:
        """The word for a step of a trial."""
        return "task"

    def benchmark_of(self, number: int) -> str:
        """Return the reference of a trial's benchmark."""
        return self.benchmark

    def steps_of(self, number: int) -> int:
        """Return the number of steps of a trial."""
        return self.steps

    def data_root_of(self, number: int) -> str | None:
        """Return the folder of the published datasets of a trial."""
        return self.data_root

    def about(self, number: int) -> dict[str, Any]:
        """Return further columns of a trial in the record and in MLflow."""
        return {}

    def label(self, number: int) -> str:
        """Return the name of a trial for people."""
        return f"{self.role} {number}"

    def file_name(self, number: int) -> str:
        """Return the name of a trial without spaces."""
        return f"trial-{number}"

    def class_order(self, number: int) -> int | None:
        """Return the seed of the class order of a trial; None for the benchmark's own order."""
        return None

    @property
    def dimensions(self) -> Mapping[str, Dimension]:
        """The hyperparameters in which its trials differ, each with its dimension."""
        return {}

    @property
    def removability(self) -> bool:
        """Whether its trials measure what each task loses without its vector."""
        return False

    @property
    def saves_curvature(self) -> bool:
        """Whether its trials write the curvature of each task beside its vector."""
        return False

    def task_title(self, task: int) -> str:
        """Return the title of a task (counted from 1): `2: animals`, or `2` if the tasks have no names."""
        return titles([each.label for each in self.tasks], task)[-1]

    def step_title(self, step: int) -> str:
        """Return the title of a step, from 1: the task's, where a step is a task."""
        return self.task_title(step) if self.steps == len(self.tasks) else str(step)

    def reached(self, tasks_done: int) -> str:
        """Say how far a trial came that ended without a value."""
        step = self.step_name
        return f"after {step} {self.step_title(tasks_done)}" if tasks_done else f"in the first {step}"

    def tasks_as_dict(self) -> dict[str, Any]:
        """Return the plain form of the tasks' names: `task_names`, `task_classes`; empty where they are unknown."""
        if not self.tasks:
            return {}
        return {
            "task_names": [task.label for task in self.tasks],
            "task_classes": [list(task.classes) for task in self.tasks],
        }

    def save(self, directory: RunDirectory) -> None:
        """Write the specification to the `run.yaml` of a run directory, and the names of its tasks beside it."""
        replace_text(directory.spec_file, yaml_of(self.model_dump(mode="json")))
        if self.tasks:
            replace_text(
                directory.tasks_file,
                json.dumps([vars(task) for task in self.tasks], indent=2, ensure_ascii=False) + "\n",
            )

    def seed_of(self, number: int) -> int:
        """Return the seed of a trial."""
        raise NotImplementedError

    def split_of(self, number: int) -> int:
        """Return the seed of the validation split of a trial, the same for all trials of a search."""
        return self.protocol.split_seed

    def trial(
        self,
        number: int,
        hyperparameters: dict[str, Any],
        *,
        cache: Path | None,
        directory: RunDirectory | None = None,
    ) -> TrialConfig:
        """Return the config of a trial.

        Args:
            number: The number of the trial.
            hyperparameters: The searched ones; the fixed ones are added.
            cache: The pre-consolidation cache; not used if its size is 0.
            directory: The run directory, for the trial's state and a final run's task vectors; None to save neither.
        """
        from trainables.data import BenchmarkRef  # torch takes seconds to import

        seed, order, benchmark = self.seed_of(number), self.class_order(number), self.benchmark_of(number)
        artifacts = None
        if order is not None:
            benchmark = str(BenchmarkRef.parse(benchmark).with_options(class_order=order))
        elif directory is not None and self.purpose == "final":
            # Vectors of another class order are of other tasks: compositions could not tell them apart.
            artifacts = str(directory.artifacts / f"seed_{seed}")
        return TrialConfig(
            run=self.name,
            trial=number,
            benchmark=benchmark,
            purpose=self.purpose,
            split_seed=self.split_of(number),
            method=self.method,
            hyperparameters={**self.fixed, **hyperparameters},
            seed=seed,
            backbone=self.protocol.backbone,
            backbone_weights=self.protocol.backbone_weights,
            initial_head=self.protocol.initial_head,
            precision=self.protocol.precision,
            gpus_per_trial=self.resources.gpus_per_trial,
            data_root=self.data_root_of(number),
            code=folders_of(self.code),
            cpus_per_trial=self.resources.cpus_per_trial,
            cache=str(cache) if cache is not None and self.cache_size else None,
            cache_bytes=int(self.cache_size * 1e9),
            artifacts=artifacts,
            save_curvature=self.saves_curvature,
            removability=self.removability,
            blobs=None if directory is None else str(directory.blobs(number)),
        )


class SearchSpec(RunSpec):
    """The specification of a search; see `RunSpec` for the other fields.

    Attributes:
        algorithm: What proposes the points; see `studies.algorithm_named`.
        sampler_options: Arguments of the algorithm's sampler.
        scheduler: The rule that stops trials early; see `studies.pruner_named`.
        pruner_options: Arguments of the scheduler's pruner.
        seed: The seed of the algorithm and of each trial.
        start: The point to try first.
        warm_start: The points to try next, before the algorithm proposes any.
        constraints: Bounds that a configuration must keep to be chosen.
        objectives: The metrics that it aims at; empty for the final accuracy alone.
        prefer: With several objectives, the metric of the one by which a point of the front is chosen, or "knee".
        reevaluate: None if the search does not re-evaluate.
        stop: The rule that may end it before all trials were run.
    """

    role: ClassVar[Role] = "trial"
    purpose: Literal["search"] = "search"
    algorithm: str = "tpe"
    sampler_options: dict[str, Scalar] = {}
    scheduler: str = "none"
    pruner_options: dict[str, Scalar] = {}
    seed: Seed = 0
    space: dict[str, Dimension] = {}
    start: dict[str, Scalar] = {}
    warm_start: tuple[KnownPoint, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    objectives: tuple[Objective, ...] = ()
    prefer: str = KNEE
    reevaluate: Reevaluate | None = None
    stop: StopRule = StopRule()

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
    def names(self) -> tuple[str, ...]:
        """The names that may stand for code of the user; most are the tool's own."""
        chosen = (name for name in (self.algorithm, self.scheduler) if not name.startswith("optuna:"))
        return (*super().names, *chosen)

    def words(self, trial: TrialSummary) -> str:
        """Return the values of a finished trial by which it is chosen, with their units."""
        return self.aim.words(trial) if self.objectives else self.value_text(trial.value or 0.0)

    @property
    def chosen_by_name(self) -> str:
        """The name of what its trials are chosen by, as users give it."""
        return self.aim.name if self.objectives else self.value_metric.removeprefix(f"{self.metrics.prefix}/")

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
    def step(self) -> float:
        """The smallest step of the value by which a trial is chosen: one image for the final accuracy, else 0."""
        chosen_by = self.aim.chosen_by
        accuracy = not self.objectives or (chosen_by is not None and chosen_by.metric == self.metrics.final_accuracy)
        return self.resolution if accuracy else 0.0

    @property
    def noise(self) -> float:
        """The gain that a value must exceed to count: its smallest step, or the error of the best when extended."""
        return self.step if self.stop.least_gain is None else self.stop.least_gain

    def seed_of(self, number: int) -> int:
        """Return the seed of the search, which all trials have."""
        return self.seed


class FinalSpec(RunSpec):
    """The specification of a final run; see `RunSpec` for the other fields.

    Attributes:
        seeds: The seeds of its trials, each once per class order.
        source: The search whose best configuration it trains, if any.
        tuned_on: The benchmark of that search.
        overrides: Values that replace the chosen ones (`--set`).
        retrained: None unless it trains tasks of another run again.
        measure_removability: Whether its trials measure what each task loses without its vector, because a bound of the
            search asked for it.
        save_curvature: Whether its trials write the curvature of each task beside its vector, for merging rules.
    """

    role: ClassVar[Role] = "seed"
    purpose: Literal["final"] = "final"
    seeds: tuple[Seed, ...]
    source: str | None = None
    tuned_on: str | None = None
    overrides: dict[str, Scalar] = {}
    retrained: Retraining | None = None
    measure_removability: bool = False
    save_curvature: bool = False

    @model_validator(mode="after")
    def _has_a_seed_for_each_trial(self) -> FinalSpec:
        orders = len(self.protocol.class_orders or (None,))
        if len(set(self.seeds)) * orders != self.trials:
            raise ValueError(f"seeds must be {self.trials // orders} different ones, as trials says")
        return self

    @property
    def removability(self) -> bool:
        """Whether its trials measure what each task loses without its vector."""
        return self.measure_removability

    @property
    def saves_curvature(self) -> bool:
        """Whether its trials write the curvature of each task beside its vector."""
        return self.save_curvature

    def label(self, number: int) -> str:
        """Return the name of a trial for people."""
        return f"seed {self.seed_of(number)}"

    def class_order(self, number: int) -> int | None:
        """Return the seed of the class order of a trial; all seeds of the first order come first."""
        orders = self.protocol.class_orders
        return None if orders is None else orders[number // len(self.seeds)]

    def seed_of(self, number: int) -> int:
        """Return the seed of a trial."""
        return self.seeds[number % len(self.seeds)]


class SpecOfSearch(RunSpec):
    """The specification of a run that belongs to a search: its re-evaluations, or the parts of its trials."""

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


AnySpec = SearchSpec | FinalSpec  # the kinds of `run.yaml`


# Results do not change with these.
_HOW = {
    "id",
    "version",
    "resources",
    "address",
    "tracking",
    "tracking_uri",
    "data_root",
    "cache_size",
    "data",
    "with_bounds",
    "code_digests",
}


def differences(then: RunSpec, now: RunSpec) -> list[str]:
    """Return the differences that make two runs different, such as `trials was 12, is now 24`; not machine or paths."""
    follows = {"trials"} if isinstance(then, FinalSpec) else set()  # from seeds and class orders, which are named
    old, new = (_flat(spec.model_dump(mode="json", exclude={*_HOW, *follows})) for spec in (then, now))
    return [
        f"{key} was {_shown(old.get(key))}, is now {_shown(new.get(key))}"
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
    ]


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping, with the keys joined by dots."""
    flat: dict[str, Any] = {}
    for key, each in value.items():
        flat |= _flat(each, f"{prefix}{key}.") if isinstance(each, Mapping) else {f"{prefix}{key}": each}
    return flat


def _shown(value: object) -> str:
    return "not there" if value is None else " ".join(map(str, value)) if isinstance(value, list) else str(value)
