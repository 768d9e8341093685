"""Run the trials of a dispatcher on Ray Tune."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, PlacementGroupFactory, RunConfig, Trainable, TuneConfig

from tausearch.execution.checkpoints import remove_checkpoints, remove_older
from tausearch.execution.dispatcher import Dispatcher
from tausearch.execution.observer import Observer
from tausearch.execution.run import Run
from tausearch.execution.storage_watch import StorageWatch
from tausearch.execution.tune_adapters import TuneScheduler, TuneSearcher
from tausearch.runs import DrivenDirectory

MAX_FAILURES = 2  # of a trial's process; the third time the trial is `failed`


def run_on_tune(
    dispatcher: Dispatcher,
    home: DrivenDirectory,
    trainable: type[Trainable],
    on_step: Callable[[], None],
    watch: StorageWatch,
) -> None:
    """Run every trial that a dispatcher hands out, on the Ray that this process is connected to.

    Args:
        dispatcher: The runs to drive, with their sources of trials.
        home: Where Tune writes.
        trainable: What a trial runs.
        on_step: Function that is called whenever Tune goes round its event loop.
        watch: The watch that is told of what could not be written.
    """

    def forget(run: Run, number: int) -> None:
        remove_checkpoints(run.directory, number)

    def folder_name(trial: Any) -> str:
        return home.trial_folder(trial.config["run"], trial.config["trial"])

    tuner = tune.Tuner(
        tune.with_resources(trainable, _resources),
        tune_config=TuneConfig(
            search_alg=TuneSearcher(dispatcher),
            scheduler=TuneScheduler(dispatcher),
            num_samples=-1,  # the dispatcher says when there are no more
            reuse_actors=True,
            trial_dirname_creator=folder_name,
        ),
        run_config=RunConfig(
            name=_next_attempt(home),
            storage_path=str(home.ray),
            callbacks=[Observer(dispatcher, on_step, watch, remove_older, forget)],
            failure_config=FailureConfig(max_failures=MAX_FAILURES),
            checkpoint_config=CheckpointConfig(checkpoint_frequency=1),  # `remove_older` says which are kept
            verbose=0,
        ),
    )
    tuner.fit()


def _resources(config: dict[str, Any]) -> PlacementGroupFactory:
    """Return what a trial gets."""
    return PlacementGroupFactory([{"CPU": config["cpus_per_trial"], "GPU": config["gpus_per_trial"]}])


def _next_attempt(home: DrivenDirectory) -> str:
    """Name a driver's own folder, differently from all others' on the same cluster.

    Ray keeps a working copy of it under its name and the second in which it was made. Two drivers that shared one would
    find the folders of their trials taken and give them other names, under which no checkpoint is looked for.

    Returns:
        The folder's name, `attempt-<number>-<random>`.
    """
    done = len(list(home.ray.glob("attempt-*"))) if home.ray.exists() else 0
    return f"attempt-{done + 1}-{uuid.uuid4().hex[:8]}"
