"""Trials made by hand: the platform is tested without training anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from tausearch.execution import Dispatcher, Run
from tausearch.runs import (
    ExperimentProtocol,
    FinalSpec,
    Resources,
    RunSpec,
    SearchSpec,
    Storage,
    TrialSummary,
    TrialTable,
)
from tausearch.studies import Searcher, TrialListener
from trainables.errors import InputError

FIXED = {"alpha_cls": 0.1, "alpha_cls_prior": 0.01, "lr_pre": 0.1}


def search_spec() -> SearchSpec:
    """Three tasks, two hyperparameters, four trials."""
    return SearchSpec(
        name="digits-ita-lora-1",
        benchmark="digits",
        method="ita-lora",
        protocol=ExperimentProtocol(
            tasks=3, epochs=5, batch_size=32, split_seed=0, backbone="glyph_vit", weights_digest="0" * 64
        ),
        resources=Resources(),
        trials=4,
        steps=3,
        space={  # type: ignore[arg-type]
            "alpha": {"low": 0.1, "high": 10, "log": True, "grid": [0.5, 1, 2]},
            "lr": {"low": 0.001, "high": 0.1, "log": True, "grid": [0.01, 0.02]},
        },
        start={"alpha": 1, "lr": 0.01},
        fixed=FIXED,
    )


def final_spec(search: SearchSpec, **changes: Any) -> FinalSpec:
    """A final run of one seed with the benchmark, method and protocol of a search."""
    shared = {name: getattr(search, name) for name in RunSpec.model_fields if name != "purpose"}
    return FinalSpec(**{**shared, "trials": 1, "seeds": (0,), **changes})


def make_trial(number: int, tasks: int = 3, value: float | None = None, **more: Any) -> TrialSummary:
    """A trial after some tasks; with a value it is complete."""
    rows = [
        {"task": float(t), "val/average_accuracy": 100.0 - 10 * t, "val/accuracy/task_1": 90.0, "seconds/training": 1.5}
        for t in range(1, tasks + 1)
    ]
    if value is not None:
        rows[-1] |= {"val/final_accuracy": value, "val/pooled_accuracy": value + 0.5, "val/forgetting": 1.0}
        rows[-1]["val/average_incremental_accuracy"] = value + 0.25
    status = "complete" if value is not None else "running"
    fields = {"status": status, "hyperparameters": {"alpha": 1.0 + number, "lr": 0.01, **FIXED}, **more}
    return TrialSummary(number=number, seed=0, rows=rows, value=value, **fields)


class Told(Protocol):
    """A listener to changes of trials, which reads them from the table."""

    trials: TrialTable

    def trial_changed(self, trial: TrialSummary) -> None: ...


def tell(told: Told, trial: TrialSummary) -> None:
    """Change a trial as the observer does: in the table first, then tell the listener."""
    told.trials.put(trial)
    told.trial_changed(trial)


def run_of(
    spec: SearchSpec, searcher: Searcher, root: Path = Path("nowhere"), listeners: Sequence[TrialListener] = ()
) -> Run:
    """A run that leaves nothing behind, open."""
    storage = Storage(root)
    run = Run(spec, storage, storage.run(spec.name), searcher, TrialTable())
    run.listeners = listeners
    return run


class Runs:
    """A queue of open runs.

    Args:
        runs: The runs, in order.
        followers: Name of a run to the run that follows it.
    """

    def __init__(self, runs: Sequence[Run], followers: dict[str, Run] | None = None) -> None:
        self.left = list(runs)
        self.followers = followers or {}
        self.opened: list[str] = []
        self.over: list[str] = []
        self.errors: list[str] = []

    def open_next(self) -> Run | None:
        if not self.left:
            return None
        self.opened.append(self.left[0].spec.name)
        return self.left.pop(0)

    def stop_run(self, run: Run, error: InputError) -> None:
        self.errors.append(f"{run.spec.name}: {error}")
        run.exhausted = True

    def next_after(self, run: Run) -> Run | None:
        self.over.append(run.spec.name)
        return self.followers.get(run.spec.name)


def dispatcher_of(
    spec: SearchSpec,
    searcher: Searcher,
    listeners: Sequence[TrialListener] = (),
    capacity: Callable[[], tuple[float, float]] = lambda: (9.0, 0.0),
    max_concurrent_trials: int | None = 9,
) -> Dispatcher:
    """A dispatcher of one run that is open."""
    resources = spec.resources.model_copy(update={"max_concurrent_trials": max_concurrent_trials})
    spec = spec.model_copy(update={"resources": resources})
    dispatcher = Dispatcher(Runs([run_of(spec, searcher, listeners=listeners)]), capacity, max_concurrent_trials)
    assert dispatcher._run_at(0) is not None
    return dispatcher
