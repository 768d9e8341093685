"""Best files: what a search exports and a final run reads; YAML with a versioned schema, refused if anything is off."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, FiniteFloat, ValidationError

from checked_input.schema import Strict, first_fault
from checked_input.text_files import TextFileError, shown
from checked_input.yaml_text import read_yaml, yaml_of
from search_spaces import Scalar
from search_spaces.values import ScalarField
from tausearch.runs import (
    AnySpec,
    Constraint,
    ExperimentProtocol,
    Reevaluation,
    RunStatus,
    SearchSpec,
    Storage,
    TrialSummary,
    all_statuses,
    read_status,
    replace_text,
)
from trainables.data import reference
from trainables.errors import InputError
from trainables.methods import get_method

SCHEMA_VERSION: Literal[1] = 1


class Reevaluated(Strict):
    """How sure a choice is: what the chosen trial and its rivals came to on fresh seeds and validation splits.

    Attributes:
        value: Mean of the metric over the chosen trial's fresh runs, percent.
        error: Its standard error; None of a single run.
        seeds: The seeds of the runs, and of their validation splits.
        candidates: Numbers of the trials that were run again, the best by the search's own value first.
        second: The one that came nearest; None if there was no other.
        ahead: By how many points the chosen trial is ahead of it, over the rounds that both have run.
        ahead_error: Standard error of that; None of a single run.
    """

    value: FiniteFloat
    error: FiniteFloat | None
    seeds: tuple[int, ...]
    candidates: tuple[int, ...]
    second: int | None
    ahead: FiniteFloat | None
    ahead_error: FiniteFloat | None


class Selection(Strict):
    """How the configuration was chosen.

    Attributes:
        metric: Name of the metric.
        value: Its value in the search, percent: if the choice was re-evaluated, what made the trial a candidate, and no
            more than that.
        trials: Number of trials that competed, that is, finished the last task.
        trial: Number of the chosen trial.
        search: Name of the search.
        constraints: The bounds that it had to keep.
        mlflow_run_id: Of the chosen trial's run; None if MLflow was not written.
        reevaluation: What fresh runs said; None if the highest value was chosen, without any.
    """

    metric: str
    value: FiniteFloat
    trials: int
    trial: int
    search: str
    constraints: tuple[Constraint, ...] = ()
    mlflow_run_id: str | None = None
    reevaluation: Reevaluated | None = None


class BestFile(Strict):
    """A chosen configuration and all that is needed to train it again.

    Attributes:
        schema_version: Of this layout.
        benchmark: Name.
        method: Name.
        hyperparameters: All of them, searched and fixed.
        protocol: See `ExperimentProtocol`.
        selection: See `Selection`; None if the configuration was not searched.
        versions: Of tausearch, torch, timm and peft.
        left_out: A line for each image that could not be read and was left out of the search.
    """

    schema_version: Literal[1]
    benchmark: str
    method: str
    hyperparameters: dict[str, ScalarField]
    protocol: ExperimentProtocol
    selection: Selection | None
    versions: dict[str, str]
    left_out: tuple[str, ...] = ()

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        header = "# Chosen by tausearch. Train it with: tausearch train <this file> --seeds 0 1 2\n"
        replace_text(path, header + yaml_of(self.model_dump(mode="json")))


def choose(
    spec: SearchSpec,
    best: TrialSummary,
    competitors: int,
    mlflow_run_id: str | None = None,
    reevaluation: Reevaluation | None = None,
) -> BestFile:
    """Describe the chosen trial of a search, its hyperparameters with those that were left at their defaults."""
    assert best.value is not None
    selection = Selection(
        metric=spec.metrics.final_accuracy,
        value=best.value,
        trials=competitors,
        trial=best.number,
        search=spec.name,
        constraints=spec.constraints,
        mlflow_run_id=mlflow_run_id,
        reevaluation=_reevaluated(reevaluation),
    )
    return _best(spec, best.hyperparameters, selection)


def _reevaluated(reevaluation: Reevaluation | None) -> Reevaluated | None:
    if reevaluation is None or reevaluation.verdict is None:
        return None
    verdict = reevaluation.verdict
    return Reevaluated(
        value=verdict.mean,
        error=verdict.error,
        seeds=reevaluation.seeds,
        candidates=reevaluation.race.candidates,
        second=verdict.second,
        ahead=verdict.ahead,
        ahead_error=verdict.ahead_error,
    )


def start_of(spec: AnySpec) -> BestFile:
    """Describe a configuration that was not searched: where a search would start, or what a final run trains."""
    return _best(spec, {**spec.fixed, **(spec.start if spec.purpose == "search" else {})}, None)


def _best(spec: AnySpec, hyperparameters: Mapping[str, Scalar], selection: Selection | None) -> BestFile:
    whole: dict[str, Scalar] = asdict(get_method(spec.method).parse(hyperparameters))
    return BestFile(
        schema_version=SCHEMA_VERSION,
        benchmark=spec.benchmark,
        method=spec.method,
        hyperparameters=whole,
        protocol=spec.protocol,
        selection=selection,
        versions={name: version(name) for name in ("tausearch", "torch", "timm", "peft")},
        left_out=spec.left_out,
    )


def load_best(path: str | Path) -> BestFile:
    """Read a best file.

    Returns:
        The checked content.

    Raises:
        InputError: If it cannot be read, is not YAML, has another version, or an unknown, missing or wrong key.
    """
    try:
        content = read_yaml(Path(path))
    except FileNotFoundError as error:
        raise InputError(f"best file {path}: cannot be read ({error.strerror})") from error
    except TextFileError as error:
        raise InputError(f"best file {path}: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"best file {path}: must be a mapping with the keys {', '.join(BestFile.model_fields)}")
    got = content.get("schema_version", "none")
    if got is True or got != SCHEMA_VERSION:
        raise InputError(f"best file {path}: key 'schema_version' must be {SCHEMA_VERSION}, got {shown(got)}")
    try:
        best = _completed(BestFile.model_validate(content))
    except ValidationError as error:
        raise InputError(f"best file {path}: {_explain(error)}") from error
    except InputError as error:
        raise InputError(f"best file {path}: {error}") from error
    return best


def best_of_all(
    storage: Storage, benchmark: str, method: str, left_out: Callable[[InputError], None] = lambda fault: None
) -> BestFile:
    """Find the best configuration of all searches of a benchmark and method, from their records.

    A search that has re-evaluated its choice counts with the mean of its fresh runs.

    Args:
        storage: The storage root.
        benchmark: Name.
        method: Name.
        left_out: Told of every run that cannot be read.

    Returns:
        The best file of that search.

    Raises:
        InputError: If there is no such method, or no search of them has a finished trial.
    """
    get_method(method)
    statuses, faults = all_statuses(storage)
    for fault in faults:
        left_out(fault)
    searches = [
        found
        for found in statuses
        if found.spec.purpose == "search" and (found.spec.benchmark, found.spec.method) == (benchmark, method)
    ]
    finished = [(found.accuracy or 0.0, found) for found in searches if found.best is not None]
    if not finished:
        specs = [each.spec for each in statuses if _has_found(each)]
        there = sorted({f"{shlex.quote(spec.benchmark)} {spec.method}" for spec in specs})
        others = f"; there are searches of: {', '.join(there)}" if there else ""
        raise InputError(f"no search of {method!r} on {benchmark!r} in {storage.root} has a finished trial{others}")
    return _best_of(storage, max(finished, key=lambda pair: pair[0])[1], left_out)


def best_of_run(storage: Storage, name: str, left_out: Callable[[InputError], None] = lambda fault: None) -> BestFile:
    """Return the best configuration of a search; `left_out` is told of a best file that cannot be read.

    Raises:
        InputError: If there is no such search, or none of its trials has finished.
    """
    found = read_status(storage.run(name))
    if found.spec.purpose == "final":
        source = f"; it was tuned by {found.spec.source}" if found.spec.source else ""
        raise InputError(f"run {name!r}: is a final run, which chooses nothing{source}")
    if found.best is None:
        raise InputError(f"run {name!r}: {found.why_nothing_chosen}")
    return _best_of(storage, found, left_out)


def _has_found(found: RunStatus) -> bool:
    return found.spec.purpose == "search" and found.best is not None


def _best_of(storage: Storage, found: RunStatus, left_out: Callable[[InputError], None]) -> BestFile:
    """Return the best file of a search that has a finished trial; one that is damaged is made from the record."""
    assert found.best is not None and isinstance(found.spec, SearchSpec), "the callers have looked"
    directory = storage.run(found.spec.name)
    if directory.best_file.exists():
        try:
            return load_best(directory.best_file)
        except InputError as fault:
            left_out(InputError(f"{fault}; its content was taken from the record"))
    return choose(found.spec, found.best, found.counts["complete"], reevaluation=found.reevaluation)


def _completed(best: BestFile) -> BestFile:
    """Check what a file names, and fill in the hyperparameters that came after it was written.

    Returns:
        The best file; a hyperparameter that came later stands at its usual value, which changes nothing.

    Raises:
        InputError: If it names something unknown, or leaves a hyperparameter to whatever the default is today.
    """
    reference(best.benchmark)
    entry = get_method(best.method)
    hyperparameters = {**entry.neutral_values, **best.hyperparameters}
    entry.parse(hyperparameters)
    missing = [each.name for each in fields(entry.config) if each.name not in hyperparameters]
    if missing:
        raise InputError(f"key 'hyperparameters.{missing[0]}' is missing")
    return best.model_copy(update={"hyperparameters": hyperparameters})


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    if first["type"] != "extra_forbidden":
        return first_fault(error)
    sections: dict[tuple[str | int, ...], type[BaseModel]] = {
        (): BestFile,
        ("protocol",): ExperimentProtocol,
        ("selection",): Selection,
        ("selection", "reevaluation"): Reevaluated,
    }
    model = sections[first["loc"][:-1]]
    return f"{first_fault(error)}; allowed: {', '.join(model.model_fields)}"
