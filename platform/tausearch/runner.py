"""Run trials on Ray Tune: the part that searches and final runs share."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, RunConfig, TuneConfig

from search_spaces import Scalar
from tausearch.algorithms import TrialSource
from tausearch.checkpoints import remove_checkpoints, remove_older
from tausearch.cluster import at_once_here
from tausearch.files import RunDirectory, trial_folder
from tausearch.observer import Listener, Observer
from tausearch.record import TrialSummary
from tausearch.spec import RunSpec
from tausearch.tune_adapters import TuneScheduler, TuneSearcher
from tausearch.watch import StorageWatch
from trainables.config import TrialConfig
from trainables.trial import Trial

MAX_FAILURES = 2  # of a trial's process; the third time the trial is `failed`


def run_trials(
    spec: RunSpec,
    directory: RunDirectory,
    source: TrialSource,
    make_config: Callable[[int, dict[str, Scalar]], TrialConfig],
    listeners: Iterable[Listener],
    history: Sequence[TrialSummary],
    on_step: Callable[[], None],
    watch: StorageWatch,
    trainable: type[tune.Trainable] = Trial,
) -> None:
    """Run every trial that `source` hands out, on the Ray that this process is connected to.

    Args:
        spec: The run.
        directory: Its run directory.
        source: Where trials come from.
        make_config: Number and hyperparameters to the config of a trial.
        listeners: Told of every change, in this order.
        history: Trials that are known already.
        on_step: Called whenever Tune goes round its event loop.
        watch: Is told of what could not be written.
        trainable: What a trial runs; another one measures the platform alone.
    """
    metric, final_metric = f"{spec.prefix}/average_accuracy", f"{spec.prefix}/final_accuracy"

    def as_dict(number: int, hyperparameters: dict[str, Scalar]) -> dict[str, Any]:
        return make_config(number, hyperparameters).as_dict()

    def forget(number: int) -> None:
        remove_checkpoints(directory, number)

    for trial in history:
        if trial.status != "running":  # a driver was killed before it could
            forget(trial.number)
    searcher = TuneSearcher(source, as_dict, metric, final_metric, lambda: at_once_here(spec))
    tuner = tune.Tuner(
        tune.with_resources(trainable, {"cpu": spec.resources.cpus_per_trial, "gpu": spec.resources.gpus_per_trial}),
        tune_config=TuneConfig(
            search_alg=searcher,
            scheduler=TuneScheduler(source, metric),
            num_samples=spec.trials,  # at most: the source says when there are no more
            reuse_actors=True,
            trial_dirname_creator=_folder_name,
        ),
        run_config=RunConfig(
            name=_next_attempt(directory),
            storage_path=str(directory.ray),
            callbacks=[Observer(listeners, final_metric, history, on_step, watch, remove_older, forget)],
            failure_config=FailureConfig(max_failures=MAX_FAILURES),
            checkpoint_config=CheckpointConfig(checkpoint_frequency=1),  # `remove_older` says which are kept
            verbose=0,
        ),
    )
    tuner.fit()


def _folder_name(trial: Any) -> str:
    return trial_folder(trial.config["trial"])


def _next_attempt(directory: RunDirectory) -> str:
    """Name a driver's own folder, differently from all others' on the same cluster.

    Ray keeps a working copy of it under its name and the second in which it was made. Two drivers that shared one would
    find the folders of their trials taken and give them other names, under which no checkpoint is looked for.

    Returns:
        `attempt-<number>-<random>`.
    """
    done = len(list(directory.ray.glob("attempt-*"))) if directory.ray.exists() else 0
    return f"attempt-{done + 1}-{uuid.uuid4().hex[:8]}"
