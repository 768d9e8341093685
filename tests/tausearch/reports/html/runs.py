"""Runs to report of, written as real ones are: a search of twelve trials, and its final run of two seeds."""

from __future__ import annotations

import math
from typing import Any

from tausearch.models import CompositionResult, EvaluationResult
from tausearch.models.evaluation_results import EvaluatedSeed
from tausearch.runs import FinalSpec, Record, RunDirectory, RunSpec, Storage, TrialSummary, write_results
from tausearch.runs.creation import make_run_directory
from tausearch.studies import write_best
from tests.support.runs.trials import FIXED, final_spec, search_spec

FINISHED = 8  # trials of the search; then come two that were stopped, one that diverged, one that failed
TASKS = 3


def make_trials() -> list[TrialSummary]:
    """Trial 3 is an outlier: 20 % where the others have 80 to 90."""
    trials = [finished(number) for number in range(FINISHED)]
    trials += [_stopped(FINISHED, "pruned"), _stopped(FINISHED + 1, "pruned")]
    return [
        *trials,
        _stopped(FINISHED + 2, "diverged", "loss is nan"),
        _stopped(FINISHED + 3, "failed", "out of memory"),
    ]


def make_search(storage: Storage, **changes: Any) -> RunDirectory:
    """A search with the trials of `make_trials`."""
    spec = search_spec().model_copy(update={"name": "the-search", "trials": 12, **changes})
    _, directory = make_run_directory(spec, storage)
    trials = make_trials()
    write(spec, directory, trials)
    write_best(spec, directory, trials)
    return directory


def make_final(storage: Storage, name: str = "the-final", **changes: Any) -> RunDirectory:
    """Accuracies 90, 80, 70 when learned; each later task costs 10 points, on seed 1 one point more."""
    update = {"name": name, "trials": 2, "seeds": (0, 1), "source": "the-search", "tuned_on": "digits"}
    fixed = {**FIXED, "alpha": 2.0, "lr": 0.02}
    spec = final_spec(search_spec(), **{**update, "fixed": fixed, **changes})
    _, directory = make_run_directory(spec, storage)
    trials = [_tested(seed, spec) for seed in spec.seeds]
    write(spec, directory, trials)
    write_results(spec, directory, trials)
    return directory


def add_compositions(directory: RunDirectory) -> None:
    """One composition of tasks 1 and 3, and the paper's protocol."""
    accuracies = ((60.0, 40.0, 50.0), (62.0, 42.0, 52.0))
    CompositionResult(
        label="keep-1,3",
        runs=(directory.name,),
        benchmark="digits",
        weights=(0.5, 0.0, 0.5),
        seeds=(0, 1),
        accuracies=accuracies,
    ).save(directory)
    rows = ((10.0, 80.0, 80.0), (70.0, 20.0, 70.0), (60.0, 60.0, 30.0))
    readings = ("drop", "negate", "subtract")
    seed = EvaluatedSeed(
        seed=0, whole=accuracies[0], specialised=accuracies[1], unlearned=dict.fromkeys(readings, rows)
    )
    EvaluationResult(run=directory.name, benchmark="digits", methods=("ita-lora",), kept=(1, 2, 3), seeds=(seed,)).save(
        directory
    )


def write(spec: RunSpec, directory: RunDirectory, trials: list[TrialSummary]) -> None:
    """Write a record."""
    for trial in trials:
        Record(directory.record, metric_names=spec.metrics, tasks=TASKS).write(trial)


def finished(number: int) -> TrialSummary:
    """A trial that finished the last task."""
    value = 20.0 if number == 3 else 80.0 + 10 * math.sin(number) ** 2
    hyperparameters = {"alpha": 0.2 + number, "lr": 0.002 * (1 + number % 3), **FIXED}
    rows = [_row(task, "val", value + 2 * (TASKS - task)) for task in range(1, TASKS + 1)]
    rows[-1] |= {"val/final_accuracy": value, "val/pooled_accuracy": value, "val/forgetting": 2.0}
    return TrialSummary(number, 0, "complete", hyperparameters, rows, value)


def _stopped(number: int, status: Any, error: str | None = None) -> TrialSummary:
    hyperparameters = {"alpha": 0.3, "lr": 0.05, **FIXED}
    return TrialSummary(number, 0, status, hyperparameters, [_row(1, "val", 60.0)], error=error)


def _row(task: int, prefix: str, average: float) -> dict[str, float]:
    times = {"seconds/preconsolidation": 1.0, "seconds/training": 2.0, "seconds/evaluation": 0.5}
    return {"task": float(task), f"{prefix}/average_accuracy": average, **times}


def _tested(seed: int, spec: FinalSpec) -> TrialSummary:
    rows = []
    for now in range(1, TASKS + 1):
        reached = {task: 100.0 - 10 * task - (10 + seed) * (now - task) for task in range(1, now + 1)}
        average = sum(reached.values()) / now
        rows.append(_row(now, "test", average) | {f"test/accuracy/task_{k}": v for k, v in reached.items()})
    final = rows[-1]["test/average_accuracy"]
    rows[-1] |= {"test/final_accuracy": final, "test/pooled_accuracy": final, "test/forgetting": 15.0}
    rows[-1]["test/average_incremental_accuracy"] = 77.0 + seed
    return TrialSummary(seed, seed, "complete", spec.fixed, rows, final)
