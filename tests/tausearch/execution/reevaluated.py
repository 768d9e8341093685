"""A search with re-evaluation driven by hand: trials by a formula, one task at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from tausearch.api import SearchRun
from tausearch.execution import Dispatcher, Run, record_of
from tausearch.execution.announcer import Announcer
from tausearch.runs import Reevaluate, RunDirectory, SearchSpec, Storage, TrialSummary
from tausearch.runs.creation import make_run_directory
from tausearch.tracking import Delivery, Event
from tests.support.runs.trials import Runs, search_spec

Outcome = Callable[[SearchSpec, int, dict[str, Any]], float]
"""What a trial of a run comes to, by its number and hyperparameters; NaN if it diverges."""


def noisy(spec: SearchSpec, number: int, hyperparameters: dict[str, Any]) -> float:
    """An accuracy that falls with the distance from alpha = 1, with noise that trial and seed decide."""
    miss = abs(math.log10(hyperparameters["alpha"]))
    seed = [spec.seed_of(number), round(1e6 * hyperparameters["alpha"]), round(1e6 * hyperparameters["lr"])]
    return float(90 - 3 * miss + np.random.default_rng(seed).normal(0, 1))


def reevaluated_search(root: Path, **changes: Any) -> tuple[SearchSpec, Storage, RunDirectory]:
    """A search that has been made and asks for re-evaluation."""
    asked = {"algorithm": "grid", "trials": 5, "reevaluate": Reevaluate(best=3, runs=2), **changes}
    storage = Storage(root)
    spec, directory = make_run_directory(search_spec().model_copy(update=asked), storage)
    return spec, storage, directory


def drive(
    spec: SearchSpec,
    storage: Storage,
    directory: RunDirectory,
    outcome: Outcome = noisy,
    before_task: Callable[[int], object] = lambda ran: None,
    send: Callable[[Event], None] | None = None,
) -> list[tuple[str, int, int]]:
    """Run the rest of a search, two trials at a time, as the driver does but without Tune and MLflow.

    `before_task` is called before every task with the number of tasks that ran, `send` with every event.
    Returns the name of the run, the number of the trial and the task, for every task that ran.
    """

    deliveries = [] if send is None else [cast(Delivery, SimpleNamespace(send=send))]

    def opened(run: Run, parent: Announcer | None = None) -> Announcer:
        announcer = Announcer(run, deliveries, parent)
        record = SimpleNamespace(trial_changed=record_of(run.tune_trials.spec, run.directory).write)
        run.listeners = run.tune_trials.listeners(record, [announcer, *run.own_listeners])
        return announcer

    search = SearchRun(spec, storage, directory)
    announcer = opened(search)

    class Queue(Runs):
        def next_after(self, run: Run) -> Run | None:
            follow_up = run.follow_up()
            if follow_up is not None:
                opened(follow_up, announcer)
            return follow_up

    dispatcher = Dispatcher(Queue([search]), lambda: (2.0, 0.0))
    ran: list[tuple[str, int, int]] = []
    running: list[tuple[Run, int, dict[str, Any]]] = []
    while not dispatcher.finished:
        while (found := dispatcher.next()) is not None:
            running.append(found)
            run, number, hyperparameters = found
            _tell(run, run.summary(number, run.tune_trials.spec.seed_of(number), {**run.spec.fixed, **hyperparameters}))
        for each in list(running):
            before_task(len(ran))
            run, number, hyperparameters = each
            summary = _next_task(run, number, hyperparameters, outcome)
            ran.append((run.spec.name, number, summary.tasks_done))
            _tell(run, summary)
            if summary.status != "running":
                running.remove(each)
                run.finish(number, summary.status, summary.value)
    search.conclude(list(search.trials))
    return ran


def _tell(run: Run, summary: TrialSummary) -> None:
    run.tune_trials.trials.put(summary)
    for listener in run.listeners:
        listener.trial_changed(summary)


def _next_task(run: Run, number: int, hyperparameters: dict[str, Any], outcome: Outcome) -> TrialSummary:
    """What is known of a trial after one more task."""
    spec = run.tune_trials.spec
    config = spec.trial_config(number, hyperparameters, cache=None, directory=run.directory)
    assert config.purpose == "search"  # nothing here can see a test image
    known = run.summary(number, config.seed, config.hyperparameters)
    value, task = outcome(spec, number, config.hyperparameters), known.tasks_done + 1
    if math.isnan(value):
        return TrialSummary(number, config.seed, "diverged", known.hyperparameters, known.rows, None, "not finite")
    row = {"task": float(task), "val/average_accuracy": value, "seconds/training": 1.0}
    if task < spec.steps_of(number):
        return TrialSummary(number, config.seed, "running", known.hyperparameters, [*known.rows, row])
    row |= {"val/final_accuracy": value, "val/forgetting": 0.0}
    return TrialSummary(number, config.seed, "complete", known.hyperparameters, [*known.rows, row], value)
