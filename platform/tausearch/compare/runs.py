"""The final runs of a storage folder, read from their run.yaml and results.json."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, FiniteFloat, ValidationError

from search_spaces import Scalar
from tausearch.files import RunDirectory, Storage
from tausearch.spec import Protocol, RunSpec, read_spec
from trainables.errors import InputError

# Hyperparameters that make it another experiment: their values stand beside the method's name unless they are these.
_USUAL: dict[str, Scalar] = {"regularise": "all", "formulation": "paper"}
_FREE = (
    "split_seed",
    "weights",
)  # of a protocol, what a final run's numbers do not depend on: no split; the digest counts


@dataclass(frozen=True)
class Score:
    """A test metric over the seeds of a final run, percent.

    Attributes:
        mean: Over the seeds.
        std: Sample standard deviation; None for one seed.
        seeds: How many.
    """

    mean: float
    std: float | None
    seeds: int


@dataclass(frozen=True)
class FinalRun:
    """A final run with at least one finished seed.

    Attributes:
        spec: What was asked for.
        accuracy: Final accuracy.
        forgetting: Final forgetting.
    """

    spec: RunSpec
    accuracy: Score
    forgetting: Score | None

    @property
    def tuned_on(self) -> str | None:
        """The benchmark that its hyperparameters were tuned on; None if an older version did not write it down."""
        return self.spec.tuned_on

    @property
    def marks(self) -> dict[str, Scalar]:
        """What makes it another experiment than the method as it is: an ablation, another formulation."""
        return {
            name: self.spec.fixed[name] for name in _USUAL if self.spec.fixed.get(name, _USUAL[name]) != _USUAL[name]
        }

    @property
    def settings(self) -> dict[str, Scalar]:
        """The marks, and every other hyperparameter that was set by hand over the chosen one."""
        return {**self.marks, **{k: v for k, v in self.spec.overrides.items() if k not in _USUAL}}

    @property
    def conditions(self) -> tuple[tuple[str, Any], ...]:
        """What its numbers depend on besides method, hyperparameters and seeds; equal where runs can be compared."""
        return tuple((name, value) for name, value in self.spec.protocol if name not in _FREE)


class _Part(BaseModel):
    mean: FiniteFloat
    std: FiniteFloat
    seeds: int


class _Results(BaseModel):
    """What is read of results.json; more may stand there."""

    summary: dict[str, _Part]


def read_final_runs(storage: Storage) -> tuple[list[FinalRun], list[str]]:
    """Read all final runs of a storage root; one that cannot be read is named on stderr and left out.

    Returns:
        Those with results, oldest first, and the names of those without: unfinished, or no seed of which finished.
    """
    found, without = [], []
    for directory in storage.runs():
        try:
            spec = read_spec(directory)
            if spec.purpose == "final":
                run = _read(directory, spec)
                if run is None:
                    without.append(spec.name)
                else:
                    found.append(run)
        except InputError as error:
            print(f"tausearch: {error}", file=sys.stderr)
    return found, without


def standing(runs: Iterable[FinalRun], key: Callable[[FinalRun], Any]) -> list[FinalRun]:
    """Return the run that stands for each key: the one with the most finished seeds, of equals the newest.

    Args:
        runs: Oldest first.
        key: What is equal for runs of the very same thing.

    Returns:
        One run per key, in the order in which the keys appear first.
    """
    best: dict[str, FinalRun] = {}
    for run in runs:
        name = repr(key(run))
        if name not in best or run.accuracy.seeds >= best[name].accuracy.seeds:
            best[name] = run
    return list(best.values())


def describe(settings: dict[str, Scalar]) -> str:
    """Return settings as text: `regularise=none, lr=0.001`."""
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in settings.items()
    )


def protocol_text(protocol: Protocol) -> str:
    """Return a protocol as text: what a reader needs to tell two runs apart."""
    parts = [f"{protocol.tasks} tasks", f"{protocol.epochs} epochs", f"batch {protocol.batch_size}", protocol.backbone]
    return ", ".join([*parts, *([] if protocol.precision == "fp32" else [protocol.precision])])


def _read(directory: RunDirectory, spec: RunSpec) -> FinalRun | None:
    try:
        content = json.loads(directory.results_file.read_text(encoding="utf-8"))
        results = _Results.model_validate(content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"results file {directory.results_file}: cannot be read ({reason})") from error
    scores = {
        name: Score(part.mean, part.std if part.seeds > 1 else None, part.seeds)
        for name, part in results.summary.items()
    }
    accuracy = scores.get("test/final_accuracy")
    return None if accuracy is None else FinalRun(spec, accuracy, scores.get("test/forgetting"))
