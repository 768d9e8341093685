"""What was asked for: the specification of a search or a final run, as its `run.yaml` keeps it."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import Field, ValidationError

from search_spaces import Scalar
from search_spaces.schema import Dimension, Strict
from tausearch.runs.files import DEFAULT_STORE_GIGABYTES, RunDirectory, replace_text
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
        name: Of the run directory.
        id: Tells it from every other run; names are unique in one storage root only, and a tracking server serves many.
        purpose: "search" or "final".
        benchmark: What it is called; see `trainables.data.BenchmarkRef`.
        method: Name.
        protocol: See `ExperimentProtocol`.
        resources: See `Resources`.
        trials: How many trials a search runs; the number of seeds of a final run.
        steps: Tasks per trial: T, or 1 for a joint method.
        store_gigabytes: Bound on the size of the pre-consolidation store; 0 does without it.
        algorithm: Of a search.
        scheduler: Of a search: its rule for stopping trials early.
        seed: Of a search: of its algorithm and of every trial.
        space: What a search searches.
        start: The point it tries first.
        fixed: Hyperparameters that it does not search; all of them in a final run.
        seeds: Of a final run.
        tracking_uri: Of MLflow; None for the default store in the storage root.
        source: The search whose best configuration a final run trains, if any.
        data_root: Folder of the published datasets, where the benchmark is one.
        tuned_on: The benchmark of that search; None in a search.
        overrides: What a final run has in the place of the chosen values (`--set`).
        version: Of tausearch.
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
    version: str = Field(default_factory=lambda: version("tausearch"))

    @property
    def metrics(self) -> MetricNames:
        """Names of the accuracies that its trials report."""
        return names_of(self.purpose)

    def save(self, directory: RunDirectory) -> None:
        """Write `run.yaml`."""
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
            number: Of the trial.
            hyperparameters: Those that the trial was given; the fixed ones are added.
            store: The pre-consolidation store; not used if its size is 0.
            directory: The run directory, in which trials keep their state, and those of a final run leave task vectors;
                None for a trial that leaves nothing.
        """
        seed = self.seeds[number] if self.seeds else self.seed
        artifacts = None if directory is None or self.purpose == "search" else directory.artifacts / f"seed_{seed}"
        return TrialConfig(
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
        The specification.

    Raises:
        InputError: If there is none, or it is not one of this version's.
    """
    try:
        return RunSpec.model_validate(yaml.safe_load(directory.spec_file.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise InputError(f"no run named {directory.name!r} in {directory.path.parent}") from error
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise InputError(f"{directory.spec_file}: cannot be read ({str(error).splitlines()[0]})") from error
