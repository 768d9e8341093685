"""What was asked for: the specification of a search or a final run, as its `run.yaml` keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, ValidationError, model_validator

from checked_input import bounds
from checked_input.schema import Strict, first_fault
from checked_input.text_files import TextFileError
from checked_input.yaml_text import read_yaml, yaml_of
from search_spaces import Scalar
from search_spaces.schema import Dimension
from tausearch.runs.constraints import Constraint
from tausearch.runs.directories import RunDirectory
from tausearch.runs.protocol import DataFacts, ExperimentProtocol
from tausearch.runs.storage import DEFAULT_CACHE_SIZE, Storage, replace_text
from trainables.config import Purpose, TrialConfig
from trainables.errors import InputError
from trainables.metrics import MetricNames, names_of

Algorithm = Literal["tpe", "gp", "random", "grid"]
Scheduler = Literal["none", "asha", "median"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
SCHEDULERS: tuple[Scheduler, ...] = get_args(Scheduler)
Seed = Annotated[int, AfterValidator(bounds.SEED.checked)]


class Resources(Strict):
    """What one trial gets, and how many run at a time; None: see `tausearch.cluster.concurrent_trials`."""

    cpus_per_trial: Annotated[int, AfterValidator(bounds.THREADS.checked)] = 1
    gpus_per_trial: Annotated[float, AfterValidator(bounds.SHARE.checked)] = 0
    max_concurrent_trials: Annotated[int, AfterValidator(bounds.CONCURRENT.checked)] | None = None


class KnownPoint(Strict):
    """A point that a search tries because it is known from elsewhere (`--warm-start`).

    Attributes:
        origin: Where it was chosen, in words.
        point: A value for every searched hyperparameter.
        misfits: What of the configuration it was made of did not fit into the space, in words.
    """

    origin: str
    point: dict[str, Scalar]
    misfits: tuple[str, ...] = ()


class Reevaluate(Strict):
    """How a search re-evaluates what it has found before it chooses (`--reevaluate`, `--reevaluate-runs`).

    Attributes:
        best: How many of the best complete trials run again.
        runs: How often each of them, every time with a fresh seed and validation split.
    """

    best: Annotated[int, AfterValidator(bounds.REEVALUATED.checked)]
    runs: Annotated[int, AfterValidator(bounds.ROUNDS.checked)]


Role = Literal["trial", "seed", "reevaluation"]


class RunSpec(Strict):
    """A run as it was asked for: what all kinds of runs have.

    Attributes:
        name: The name of the run and of its run directory.
        id: Tells it from every other run; names are unique in one storage root only, and a tracking server serves many.
        purpose: The split that its trials are judged on: "search" (validation) or "final" (test).
        benchmark: What the benchmark is called, as `trainables.data.BenchmarkRef` reads it.
        method: Name of the method.
        protocol: What its numbers depend on besides hyperparameters and seed.
        resources: What one trial gets, and how many were asked to run at a time.
        trials: The number of trials.
        steps: Number of tasks per trial: T, or 1 for a joint method.
        cache_size: Bound on the size of the pre-consolidation cache, gigabytes; 0 does without it.
        fixed: The hyperparameters that all trials have; all of them in a final run.
        tracking_uri: MLflow tracking URI; None for the default store in the storage root.
        data_root: Folder of the published datasets, where the benchmark is one.
        data: What images it sees.
        left_out: A line for each image that cannot be read and is left out (`--skip-broken`).
        version: The version of tausearch that made the run.
    """

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
    tracking_uri: str | None = None
    data_root: str | None = None
    data: DataFacts | None = None
    left_out: tuple[str, ...] = ()
    version: str = Field(default_factory=lambda: version("tausearch"))

    @property
    def metrics(self) -> MetricNames:
        """Names of the accuracies that its trials report."""
        return names_of(self.purpose)

    @property
    def role(self) -> Role:
        """What each of its trials is to it."""
        raise NotImplementedError

    @property
    def run_name(self) -> str:
        """The name of the run directory that it is part of; only re-evaluations have a name of their own."""
        return self.name

    @property
    def resolution(self) -> float:
        """The smallest step of an accuracy, percent: one image; 0 where their number is not known."""
        return 0.0 if self.data is None else 100.0 / self.data.evaluation

    def about(self, number: int) -> dict[str, Any]:
        """Return what tells one of its trials from the others, beside its number."""
        return {}

    def label(self, number: int) -> str:
        """Return what a person calls one of its trials."""
        return f"{self.role} {number}"

    def file_name(self, number: int) -> str:
        """Return what one of its trials is called where a name has no spaces."""
        return f"trial-{number}"

    def class_order(self, number: int) -> int | None:
        """Return the seed of the class order of one of its trials; None for the benchmark's own order."""
        return None

    @property
    def learns(self) -> bool:
        """Whether the results of trials decide what is tried next."""
        return False

    @property
    def dimensions(self) -> Mapping[str, Dimension]:
        """The hyperparameters in which its trials differ, each with its dimension."""
        return {}

    def save(self, directory: RunDirectory) -> None:
        """Write the specification to the `run.yaml` of a run directory."""
        replace_text(directory.spec_file, yaml_of(self.model_dump(mode="json")))

    def seed_of(self, number: int) -> int:
        """Return the seed of one of its trials."""
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
        """Return the config of one of its trials.

        Args:
            number: The number of the trial.
            hyperparameters: The hyperparameters that the trial was given; the fixed ones are added.
            cache: The pre-consolidation cache; not used if its size is 0.
            directory: The run directory, in which trials keep their state, and those of a final run leave task vectors;
                None for a trial that leaves nothing.
        """
        from trainables.data import code_folder  # torch takes seconds to import; to read what was asked for must not

        seed = self.seed_of(number)
        order = self.class_order(number)
        # Vectors of another class order are of other tasks: nothing that composes could tell them apart.
        leaves = directory is not None and self.purpose == "final" and order is None
        artifacts = directory.artifacts / f"seed_{seed}" if directory is not None and leaves else None
        return TrialConfig(
            run=self.name,
            trial=number,
            benchmark=self.benchmark if order is None else _reordered(self.benchmark, order),
            purpose=self.purpose,
            split_seed=self.split_of(number),
            method=self.method,
            hyperparameters={**self.fixed, **hyperparameters},
            seed=seed,
            backbone=self.protocol.backbone,
            weights=self.protocol.weights,
            precision=self.protocol.precision,
            gpus_per_trial=self.resources.gpus_per_trial,
            data_root=self.data_root,
            code_folder=code_folder(self.benchmark),
            cpus_per_trial=self.resources.cpus_per_trial,
            cache=str(cache) if cache is not None and self.cache_size else None,
            cache_bytes=int(self.cache_size * 1e9),
            artifacts=None if artifacts is None else str(artifacts),
            blobs=None if directory is None else str(directory.blobs(number)),
        )


class SearchSpec(RunSpec):
    """A search as it was asked for; see `RunSpec` for the rest.

    Attributes:
        algorithm: The search algorithm.
        scheduler: The rule by which it stops trials early.
        seed: The seed of the algorithm and of each trial.
        space: The hyperparameters that it searches, each with its dimension.
        start: The hyperparameters that it tries first.
        warm_start: The points that it tries next, before the algorithm is asked.
        constraints: Bounds that a configuration must keep to be chosen.
        reevaluate: How it re-evaluates its best trials; None if it does not.
    """

    purpose: Literal["search"] = "search"
    algorithm: Algorithm = "tpe"
    scheduler: Scheduler = "none"
    seed: Seed = 0
    space: dict[str, Dimension] = {}
    start: dict[str, Scalar] = {}
    warm_start: tuple[KnownPoint, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    reevaluate: Reevaluate | None = None

    @model_validator(mode="after")
    def _starts_in_its_space(self) -> SearchSpec:
        if missing := sorted(set(self.space) - set(self.start)):
            raise ValueError(f"start must have {missing[0]!r}")
        return self

    @property
    def role(self) -> Role:
        """What each of its trials is to it."""
        return "trial"

    @property
    def learns(self) -> bool:
        """Whether the results of trials decide what is tried next."""
        return self.algorithm in ("tpe", "gp")

    @property
    def dimensions(self) -> Mapping[str, Dimension]:
        """The hyperparameters in which its trials differ, each with its dimension."""
        return self.space

    def seed_of(self, number: int) -> int:
        """Return the seed of one of its trials: all have the search's."""
        return self.seed


class FinalSpec(RunSpec):
    """A final run as it was asked for; see `RunSpec` for the rest.

    Attributes:
        seeds: The seeds of its trials, each of them once for each class order.
        source: The search whose best configuration it trains, if any.
        tuned_on: The benchmark of that search.
        overrides: What it has in the place of the chosen values (`--set`).
    """

    purpose: Literal["final"] = "final"
    seeds: tuple[Seed, ...]
    source: str | None = None
    tuned_on: str | None = None
    overrides: dict[str, Scalar] = {}

    @model_validator(mode="after")
    def _has_a_seed_for_each_trial(self) -> FinalSpec:
        orders = len(self.protocol.class_orders or (None,))
        if len(set(self.seeds)) * orders != self.trials:
            raise ValueError(f"seeds must be {self.trials // orders} different ones, as trials says")
        return self

    @property
    def role(self) -> Role:
        """What each of its trials is to it."""
        return "seed"

    def label(self, number: int) -> str:
        """Return what a person calls one of its trials."""
        return f"seed {self.seed_of(number)}"

    def class_order(self, number: int) -> int | None:
        """Return the seed of the class order of one of its trials; all seeds of the first order come first."""
        orders = self.protocol.class_orders
        return None if orders is None else orders[number // len(self.seeds)]

    def seed_of(self, number: int) -> int:
        """Return the seed of one of its trials."""
        return self.seeds[number % len(self.seeds)]


AnySpec = SearchSpec | FinalSpec  # what a `run.yaml` holds


def _reordered(benchmark: str, order: int) -> str:
    from trainables.data import BenchmarkRef  # torch takes seconds to import; to read what was asked for must not

    return str(BenchmarkRef.parse(benchmark).with_options(class_order=order))


def read_spec(directory: RunDirectory) -> AnySpec:
    """Read the `run.yaml` of a run directory.

    Returns:
        The specification that the file holds.

    Raises:
        InputError: If the run directory has no `run.yaml`, or it is not one of this version's, or of another run.
    """
    try:
        content = read_yaml(directory.spec_file)
        purpose = content.get("purpose") if isinstance(content, dict) else None
        spec = (FinalSpec if purpose == "final" else SearchSpec).model_validate(content)
    except FileNotFoundError as error:
        storage = Storage(directory.path.parent)
        raise InputError(f"no run named {directory.name!r} in {storage.root}{storage.near(directory.name)}") from error
    except TextFileError as error:
        raise InputError(f"{directory.spec_file}: {error}") from error
    except ValidationError as error:
        raise InputError(f"{directory.spec_file}: {first_fault(error)}") from error
    if spec.name != directory.name:  # what else lies there is of another run, and nobody can say of which
        raise InputError(
            f"run {directory.name!r}: run.yaml is that of a run named {spec.name!r}; give the folder this name"
        )
    return spec


_HOW = {"id", "version", "resources", "tracking_uri", "data_root", "cache_size", "data"}  # how and where, not what


def differences(then: RunSpec, now: RunSpec) -> list[str]:
    """Return in what two specifications ask for different things, such as `trials was 12, is now 24`.

    What a run is given to run with, and where its data and its tracking server lie, makes it no other run.
    """
    old, new = (_flat(spec.model_dump(mode="json", exclude=_HOW)) for spec in (then, now))
    return [
        f"{key} was {_shown(old.get(key))}, is now {_shown(new.get(key))}"
        for key in dict.fromkeys([*old, *new])
        if old.get(key) != new.get(key)
    ]


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one, the way to a value joined by dots."""
    flat: dict[str, Any] = {}
    for key, each in value.items():
        flat |= _flat(each, f"{prefix}{key}.") if isinstance(each, Mapping) else {f"{prefix}{key}": each}
    return flat


def _shown(value: object) -> str:
    return "not there" if value is None else " ".join(map(str, value)) if isinstance(value, list) else str(value)
