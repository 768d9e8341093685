"""The fields and the `run.yaml` that the specifications of all runs share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, FiniteFloat

from checked_input import ranges
from checked_input.schema import Strict
from checked_input.yaml_text import yaml_of
from search_spaces import Scalar
from search_spaces.schema import Choices, Dimension
from tausearch.runs.directories import RunDirectory
from tausearch.runs.protocol import DataFacts, ExperimentProtocol, Resources, with_one_slash
from tausearch.runs.storage import DEFAULT_CACHE_SIZE, replace_text
from trainables.config import Purpose, TrialConfig
from trainables.metrics import MetricNames, names_of
from trainables.task_names import NamedTask, titles
from trainables.user_code import code_among, folders_of

TrackerName = Literal["mlflow", "tensorboard"]
Seed = Annotated[int, AfterValidator(ranges.SEED.checked)]
Role = Literal["trial", "seed", "reevaluation", "part"]


def names_in(
    benchmarks: Iterable[str], method: str, protocol: ExperimentProtocol, values: Iterable[Scalar]
) -> tuple[str, ...]:
    """Return the names in an experiment that may stand for code of the user; most are the tool's own.

    `values` are those of hyperparameters; a text among them may name code, such as a curvature.
    """
    texts = (value for value in values if isinstance(value, str))
    return (*(name.partition("?")[0] for name in benchmarks), method, protocol.backbone, *texts)


@dataclass(frozen=True)
class ValueLabels:
    """What the value by which trials are compared is called."""

    metric: str  # its name among the metrics
    title: str  # in tables
    caption: str  # its name in captions
    axis: str  # its name at an axis, with the unit
    unit: str

    @property
    def difference(self) -> str:
        """The unit of a difference between values."""
        return "points" if self.unit == "%" else self.unit


class RunSpec(Strict):
    """The fields that the specifications of all kinds of runs share.

    `tasks` follow from the benchmark, so `run.yaml` has them not; a file of their own spares readers a look at images.
    """

    role: ClassVar[Role]  # the kind of its trials
    name: str
    id: str = ""  # unique over all storage roots, which names are not; a tracking server serves many roots
    purpose: Purpose  # the split that its trials are judged on: "search" (validation) or "final" (test)
    benchmark: str  # name and options, as `trainables.data.BenchmarkRef` reads them
    method: str
    protocol: ExperimentProtocol
    resources: Resources
    trials: Annotated[int, AfterValidator(ranges.TRIALS.checked)]
    steps: Annotated[int, AfterValidator(ranges.TASKS.checked)]  # number of tasks per trial: T, or 1 for a joint method
    cache_size: Annotated[float, AfterValidator(ranges.GIGABYTES.checked)] = DEFAULT_CACHE_SIZE  # GB; 0: no cache
    fixed: dict[str, Scalar] = {}  # the hyperparameters that all trials have; all of them in a final run
    tracking: tuple[TrackerName, ...] | None = None  # where it is written to; None for MLflow alone, see `trackers`
    tracking_uri: str | None = None  # None for the default store of MLflow in the storage root
    address: str | None = None  # of the Ray cluster that its last driver joined; None for a Ray of the driver's own
    data_root: str | None = None  # folder of the published datasets
    data: DataFacts | None = None
    left_out: tuple[str, ...] = ()  # a line for each unreadable image, up to a bound, and for classes in no task
    with_bounds: bool = False  # whether `probe` and `joint` are run after it, where they were not measured yet
    tasks: Annotated[tuple[NamedTask, ...], Field(exclude=True)] = ()  # by name; empty where their file is missing
    version: str = Field(default_factory=lambda: version("tausearch"))  # of the tausearch that made the run
    created: FiniteFloat | None = None  # when its directory was made, seconds since the epoch
    code_digests: dict[str, str] = {}  # of the files of the user's code, by its name, when the run last started

    @property
    def class_count(self) -> int | None:
        """The number of classes of all tasks; None where it is not known."""
        return sum(len(task.classes) for task in self.tasks) or None

    @property
    def metrics(self) -> MetricNames:
        """Names of the accuracies that its trials report."""
        return names_of(self.purpose)

    @property
    def code(self) -> tuple[str, ...]:
        """The code of the user, `MODULE:NAME`, that its trials import."""
        return code_among(self.user_code_names)

    @property
    def user_code_names(self) -> tuple[str, ...]:
        """The names that may stand for code of the user; most are the tool's own."""
        searched = [value for each in self.dimensions.values() if isinstance(each, Choices) for value in each.choices]
        return names_in([self.benchmark], self.method, self.protocol, [*self.fixed.values(), *searched])

    @property
    def run_name(self) -> str:
        """The name of the run directory; re-evaluations are in that of their search."""
        return self.name

    @property
    def trackers(self) -> tuple[TrackerName, ...]:
        """The trackers that the run is written to."""
        return ("mlflow",) if self.tracking is None else self.tracking

    @property
    def images(self) -> Mapping[str, DataFacts]:
        """The benchmarks of the run to their images, where these are known."""
        return {} if self.data is None else {with_one_slash(self.benchmark): self.data}

    @property
    def accuracy_resolution(self) -> float:
        """The largest step of a trial's final accuracy that one image makes, percent; 0 where none is known."""
        return 0.0 if self.data is None else self.data.accuracy_resolution

    @property
    def value_labels(self) -> ValueLabels:
        """What the value by which trials are compared is called."""
        title = f"{self.metrics.prefix} accuracy"
        return ValueLabels(self.metrics.final_accuracy, title, "Final accuracy", "final accuracy (%)", "%")

    @property
    def device(self) -> str:
        """Device and precision of a trial in words, and why; empty where there is no GPU to speak of."""
        return self.resources.words(self.protocol.precision)

    def planned_device(self, *, pilot: bool) -> str:
        """Return the device of a run that has not begun; `pilot` says that a pilot trial is to measure the share."""
        if not pilot:
            return self.device
        precision = self.protocol.precision
        why = self.resources.why_precision(precision)
        return f"a share of a GPU in {precision} (a pilot trial measures it{f'; {why}' if why else ''})"

    def value_text(self, value: float | None, digits: int = 2) -> str:
        """Return the value of a trial with its unit."""
        return "-" if value is None else f"{value:.{digits}f} {self.value_labels.unit}"

    @property
    def trial_noun(self) -> str:
        """The word for a trial: those of a final run in one class order are its seeds."""
        return "seed" if self.purpose == "final" and self.protocol.class_orders is None else "trial"

    @property
    def step_noun(self) -> str:
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

    def data_of(self, number: int) -> DataFacts | None:
        """Return the images of a trial."""
        return self.data

    def extra_columns(self, number: int) -> dict[str, Any]:
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
        raise NotImplementedError

    def task_title(self, task: int) -> str:
        """Return the title of a task (counted from 1): `2: animals`, or `2` if the tasks have no names."""
        return titles([each.label for each in self.tasks], task)[-1]

    def step_title(self, step: int) -> str:
        """Return the title of a step, from 1: the task's, where a step is a task."""
        return self.task_title(step) if self.steps == len(self.tasks) else str(step)

    def reached(self, tasks_done: int) -> str:
        """Say how far a trial came that ended without a value."""
        step = self.step_noun
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

    def trial_config(
        self, number: int, hyperparameters: dict[str, Any], *, cache: Path | None, directory: RunDirectory | None = None
    ) -> TrialConfig:
        """Return the config of a trial; the fixed hyperparameters are added to the searched ones.

        The run directory gets the trial's state and a final run's task vectors; None to save neither.
        """
        from trainables.data import BenchmarkRef  # torch takes seconds to import

        seed, order, benchmark = self.seed_of(number), self.class_order(number), self.benchmark_of(number)
        images = self.data_of(number)
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
            images=None if images is None else images.counts,
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
            save_curvature=getattr(self, "save_curvature", False),
            removability=self.removability,
            checkpoints=None if directory is None else str(directory.checkpoints(number)),
        )
