"""Run the trials of a run on Ray Tune."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any

from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, RunConfig, TuneConfig

from search_spaces import Scalar
from tausearch.cluster import at_once_here
from tausearch.driving.checkpoints import remove_checkpoints, remove_older
from tausearch.driving.job import Job, Listener
from tausearch.driving.observer import Observer
from tausearch.driving.tune_adapters import TuneScheduler, TuneSearcher
from tausearch.driving.watch import StorageWatch
from tausearch.runs import RunDirectory, trial_name

MAX_FAILURES = 2  # of a trial's process; the third time the trial is `failed`


def run_on_tune(job: Job, listeners: Iterable[Listener], on_step: Callable[[], None], watch: StorageWatch) -> None:
    """Run every trial that the job's source hands out, on the Ray that this process is connected to.

    Args:
        job: The run to drive, with its source of trials.
        listeners: The listeners that are told of every change, in this order.
        on_step: Function that is called whenever Tune goes round its event loop.
        watch: The watch that is told of what could not be written.
    """
    spec, directory = job.spec, job.directory

    def make_config(number: int, hyperparameters: dict[str, Scalar]) -> dict[str, Any]:
        return job.config(number, hyperparameters).as_dict()

    def forget(number: int) -> None:
        remove_checkpoints(directory, number)

    for trial in job.trials:
        if trial.status != "running":  # a driver was killed before it could
            forget(trial.number)
    searcher = TuneSearcher(job.source, make_config, spec.metrics, lambda: at_once_here(spec))
    observer = Observer(listeners, job.trials, spec.metrics, on_step, watch, remove_older, forget)
    resources = {"cpu": spec.resources.cpus_per_trial, "gpu": spec.resources.gpus_per_trial}
    tuner = tune.Tuner(
        tune.with_resources(job.trainable, resources),
        tune_config=TuneConfig(
            search_alg=searcher,
            scheduler=TuneScheduler(job.source, spec.metrics.average_accuracy),
            num_samples=spec.trials,  # at most: the source says when there are no more
            reuse_actors=True,
            trial_dirname_creator=_folder_name,
        ),
        run_config=RunConfig(
            name=_next_attempt(directory),
            storage_path=str(directory.ray),
            callbacks=[observer],
            failure_config=FailureConfig(max_failures=MAX_FAILURES),
            checkpoint_config=CheckpointConfig(checkpoint_frequency=1),  # `remove_older` says which are kept
            verbose=0,
        ),
    )
    tuner.fit()


def _folder_name(trial: Any) -> str:
    return trial_name(trial.config["trial"])


def _next_attempt(directory: RunDirectory) -> str:
    """Name a driver's own folder, differently from all others' on the same cluster.

    Ray keeps a working copy of it under its name and the second in which it was made. Two drivers that shared one would
    find the folders of their trials taken and give them other names, under which no checkpoint is looked for.

    Returns:
        The folder's name, `attempt-<number>-<random>`.
    """
    done = len(list(directory.ray.glob("attempt-*"))) if directory.ray.exists() else 0
    return f"attempt-{done + 1}-{uuid.uuid4().hex[:8]}"
