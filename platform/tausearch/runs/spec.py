"""What was asked for: the specification of a search or a final run, as its `run.yaml` keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import Field, ValidationError

from search_spaces import Scalar
from search_spaces.schema import Dimension, Strict
from search_spaces.yaml_text import parse_yaml
from tausearch.runs.files import DEFAULT_STORE_GIGABYTES, RunDirectory, Storage, replace_text
from tausearch.runs.protocol import ExperimentProtocol
from trainables.config import Purpose, TrialConfig
from trainables.errors import InputError
from trainables.metrics import MetricNames, names_of

Algorithm = Literal["grid", "random", "tpe", "gp"]
Scheduler = Literal["none", "asha", "median"]
ALGORITHMS: tuple[Algorithm, ...] = ("tpe", "gp", "random", "grid")
SCHEDULERS: tuple[Scheduler, ...] = get_args(Scheduler)


class Resources(Strict):
    """What one trial gets, and how many were asked to run at a time: None for what `tausearch.cluster.at_once` says."""

    cpus_per_trial: int = Field(1, ge=1)
    gpus_per_trial: float = Field(0, ge=0)
    concurrent: Annotated[int, Field(ge=1)] | None = None


class RunSpec(Strict):
    """A search or final run as it was asked for.

    Attributes:
        name: The name of the run and of its run directory.
        id: Tells it from every other run; names are unique in one storage root only, and a tracking server serves many.
        purpose: The kind of run: "search" or "final".
        benchmark: What the benchmark is called, as `trainables.data.BenchmarkRef` reads it.
        method: Name of the method.
        protocol: What its numbers depend on besides hyperparameters and seed.
        resources: What one trial gets, and how many were asked to run at a time.
        trials: How many trials a search runs; the number of seeds of a final run.
        steps: Number of tasks per trial: T, or 1 for a joint method.
        store_gigabytes: Bound on the size of the pre-consolidation store; 0 does without it.
        algorithm: The search algorithm; without meaning in a final run.
        scheduler: The rule by which a search stops trials early.
        seed: The seed of a search's algorithm and of each of its trials.
        space: The hyperparameters that a search searches, each with its dimension.
        start: The hyperparameters that a search tries first.
        fixed: The hyperparameters that are not searched; all of them in a final run.
        seeds: The seeds of a final run's trials; empty in a search.
        tracking_uri: MLflow tracking URI; None for the default store in the storage root.
        source: The search whose best configuration a final run trains, if any.
        data_root: Folder of the published datasets, where the benchmark is one.
        tuned_on: The benchmark of the search named by `source`; None in a search.
        overrides: What a final run has in the place of the chosen values (`--set`).
        left_out: A line for each image that cannot be read and is left out (`--skip-broken`).
        version: The version of tausearch that made the run.
    """

    name: str
    id: str = ""  # runs from before there were any have none
    purpose: Purpose
    benchmark: str
    method: str
    protocol: ExperimentProtocol
    resources: Resources
    trials: int = Field(ge=1)
    steps: int = Field(ge=1)
    store_gigabytes: Annotated[float, Field(ge=0)] = DEFAULT_STORE_GIGABYTES
    algorithm: Algorithm = "tpe"
    scheduler: Scheduler = "none"
    seed: int = 0
    space: dict[str, Dimension] = {}
    start: dict[str, Scalar] = {}
    fixed: dict[str, Scalar] = {}
    seeds: tuple[int, ...] = ()
    tracking_uri: str | None = None
    source: str | None = None
    data_root: str | None = None
    tuned_on: str | None = None
    overrides: dict[str, Scalar] = {}
    left_out: tuple[str, ...] = ()
    version: str = Field(default_factory=lambda: version("tausearch"))

    @property
    def metrics(self) -> MetricNames:
        """Names of the accuracies that its trials report."""
        return names_of(self.purpose)

    def save(self, directory: RunDirectory) -> None:
        """Write the specification to the `run.yaml` of a run directory."""
        replace_text(directory.spec_file, yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False))

    def trial(
        self,
        number: int,
        hyperparameters: dict[str, Any],
        *,
        store: Path | None,
        directory: RunDirectory | None = None,
    ) -> TrialConfig:
        """Return the config of one of its trials.

        Args:
            number: The number of the trial.
            hyperparameters: The hyperparameters that the trial was given; the fixed ones are added.
            store: The pre-consolidation store; not used if its size is 0.
            directory: The run directory, in which trials keep their state, and those of a final run leave task vectors;
                None for a trial that leaves nothing.
        """
        seed = self.seeds[number] if self.seeds else self.seed
        artifacts = None if directory is None or self.purpose == "search" else directory.artifacts / f"seed_{seed}"
        return TrialConfig(
            run=self.name,
            trial=number,
            benchmark=self.benchmark,
            purpose=self.purpose,
            split_seed=self.protocol.split_seed,
            method=self.method,
            hyperparameters={**self.fixed, **hyperparameters},
            seed=seed,
            backbone=self.protocol.backbone,
            weights=self.protocol.weights,
            precision=self.protocol.precision,
            gpu_share=self.resources.gpus_per_trial,
            data_root=self.data_root,
            threads=self.resources.cpus_per_trial,
            store=str(store) if store is not None and self.store_gigabytes else None,
            store_bytes=int(self.store_gigabytes * 1e9),
            artifacts=None if artifacts is None else str(artifacts),
            kept=None if directory is None else str(directory.kept(number)),
        )


def read_spec(directory: RunDirectory) -> RunSpec:
    """Read the `run.yaml` of a run directory.

    Returns:
        The specification that the file holds.

    Raises:
        InputError: If the run directory has no `run.yaml`, or it is not one of this version's.
    """
    try:
        return RunSpec.model_validate(parse_yaml(directory.spec_file.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        storage = Storage(directory.path.parent)
        raise InputError(f"no run named {directory.name!r} in {storage.root}{storage.near(directory.name)}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        raise InputError(f"{directory.spec_file}: cannot be read ({str(error).splitlines()[0]})") from error


_HOW = {"id", "version", "resources", "tracking_uri", "data_root", "store_gigabytes"}  # how and where, not what


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
