"""Run the trials of a dispatcher on Ray Tune."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, PlacementGroupFactory, RunConfig, Trainable, TuneConfig

from tausearch.execution.dispatcher import Dispatcher
from tausearch.execution.observer import Observer
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
        dispatcher: The runs to drive.
        home: The folder in which Tune writes.
        trainable: The class of a trial.
        on_step: Called in every step of Tune's event loop.
        watch: Notes errors of the storage.
    """

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
            callbacks=[Observer(dispatcher, on_step, watch)],
            failure_config=FailureConfig(max_failures=MAX_FAILURES),
            checkpoint_config=CheckpointConfig(checkpoint_frequency=1),  # `Observer` removes older ones
            verbose=0,
        ),
    )
    tuner.fit()


def _resources(config: dict[str, Any]) -> PlacementGroupFactory:
    return PlacementGroupFactory([{"CPU": config["cpus_per_trial"], "GPU": config["gpus_per_trial"]}])


def _next_attempt(home: DrivenDirectory) -> str:
    """Return the name of a driver's own folder, `attempt-<number>-<random>`, unique on its cluster.

    Ray keeps a working copy of the folder under its name and the second in which it was made. Two drivers that shared
    a copy would give their trials other folders, in which no checkpoint is looked for.
    """
    done = len(list(home.ray.glob("attempt-*"))) if home.ray.exists() else 0
    return f"attempt-{done + 1}-{uuid.uuid4().hex[:8]}"
