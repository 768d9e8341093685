"""A search on two benchmarks, made by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from tausearch.runs import (
    MultiSearchSpec,
    PartsSpec,
    RunDirectory,
    RunSpec,
    SearchBenchmark,
    Storage,
    TrialSummary,
    parts_of,
)
from tausearch.runs.creation import make_run_directory
from tests.support.runs.trials import search_spec
from trainables.task_names import NamedTask

STEPS = {"digits": 3, "glyphs": 2}


def several_spec(**changes: Any) -> MultiSearchSpec:
    """Three tasks of digits, two of glyphs; two hyperparameters, four trials."""
    search = search_spec()
    shared = {name: getattr(search, name) for name in type(search).model_fields}
    own = {
        "name": "both",
        "benchmark": "digits,glyphs",
        "steps": 2,
        "tasks": tuple(NamedTask((name,)) for name in STEPS),
        "across": "normalised",
        "parts": {
            name: SearchBenchmark(protocol=search.protocol.model_copy(update={"tasks": steps}), steps=steps)
            for name, steps in STEPS.items()
        },
    }
    return MultiSearchSpec(**{**shared, **own, **changes})


def parts(spec: MultiSearchSpec) -> PartsSpec:
    """The parts of the search."""
    found = parts_of(spec)
    assert found is not None
    return found


def several_search(root: Path, **changes: Any) -> tuple[MultiSearchSpec, Storage, RunDirectory]:
    """A search that has been made."""
    storage = Storage(root)
    spec, directory = make_run_directory(several_spec(**changes), storage)
    return spec, storage, directory


def part(spec: MultiSearchSpec, trial: int, place: int, value: float | None, **more: Any) -> TrialSummary:
    """A part of a trial, complete with a value."""
    rows = [] if value is None else [{"task": 1.0, "val/average_accuracy": value, "val/final_accuracy": value}]
    point = {"alpha": 1.0 + trial, "lr": 0.01}
    fields = {"status": "running" if value is None else "complete", "hyperparameters": point, "rows": rows, **more}
    return TrialSummary(parts(spec).number(trial, place), spec.seed, value=value, **fields)


def accuracy(spec: RunSpec, number: int, hyperparameters: dict[str, Any]) -> float:
    """Alpha 2 is best on digits and 4 on glyphs, which is harder and differs more."""
    benchmark = spec.benchmark_of(number)
    miss = abs(math.log2(hyperparameters["alpha"] / (2 if benchmark == "digits" else 4)))
    return (95 - miss if benchmark == "digits" else 60 - 10 * miss) - spec.seed_of(number) / 10
