"""Run the trials of a `Dispatcher` on Ray Tune, with a searcher and a scheduler that answer Tune from it.

Tune's own OptunaSearch is not used because it tells Optuna that a trial stopped early is complete, and leaves one that
reported NaN running for ever. Tune's own schedulers are not used because their state does not survive a resume.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import ray
from ray import tune
from ray.air._internal import usage
from ray.tune import (
    CheckpointConfig,
    CLIReporter,
    FailureConfig,
    RunConfig,
    Trainable,
    TuneConfig,
)
from ray.tune.error import TuneError
from ray.tune.execution.class_cache import _ActorClassCache
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher as RaySearcher
from ray.tune.utils.object_cache import _ObjectCache

from tausearch.cluster import placement_of
from tausearch.execution.dispatcher import Dispatcher
from tausearch.execution.observer import Observer, is_out_of_memory, latest_error, status_of
from tausearch.execution.run import Run
from tausearch.execution.storage_watch import StorageWatch
from tausearch.runs import DrivenDirectory, remove_empty, trial_folder_name
from trainables.errors import InputError

# Ray's telemetry is off; its count of callbacks would import MLflow, Weights & Biases, Comet and Aim in every driver.
usage.tag_callbacks = lambda callbacks: False
MAX_FAILURES = 2  # of a trial's process; the third time the trial is `failed`
KEPT_SECONDS = 10.0  # that a free process waits for a trial: to start another one takes about as long


def run_on_tune(
    dispatcher: Dispatcher,
    home: DrivenDirectory,
    trainable: type[Trainable],
    on_step: Callable[[], None],
    watch: StorageWatch,
    *,
    before_first: Callable[[], None],
    own_ray: bool,
) -> None:
    """Run every trial that a dispatcher hands out, on the Ray that this process is connected to.

    Args:
        dispatcher: The runs to drive.
        home: The folder in which Tune writes.
        trainable: The class of a trial.
        on_step: Called in every step of Tune's event loop.
        watch: Notes errors of the storage.
        before_first: Called when the first process has started, before a task of its trial runs; an error ends Tune.
        own_ray: Whether this process has started Ray.

    Raises:
        InputError: That of `before_first`; what Tune has written is removed.
        OSError: If a change could not be noted, and the storage is not the reason.
        TuneError: If anything else ends Tune.
    """

    def folder_name(trial: Any) -> str:
        return f"{trial.config['run']}.{trial_folder_name(trial.config['trial'])}"

    attempt, observer = _next_attempt(home), Observer(dispatcher, on_step, watch, before_first)
    tuner = tune.Tuner(
        tune.with_resources(trainable, placement_of),
        tune_config=TuneConfig(
            search_alg=TuneSearcher(dispatcher),
            scheduler=TuneScheduler(dispatcher, own_ray=own_ray),
            num_samples=-1,  # the dispatcher says when there are no more
            reuse_actors=True,
            trial_dirname_creator=folder_name,
        ),
        run_config=RunConfig(
            name=attempt,
            storage_path=str(home.ray),
            callbacks=[observer],
            failure_config=FailureConfig(max_failures=MAX_FAILURES),
            checkpoint_config=CheckpointConfig(checkpoint_at_end=False),  # a trial's process writes its own
            verbose=0,
            progress_reporter=CLIReporter(),  # in a notebook Tune's own would show an empty cell
        ),
    )
    try:
        tuner.fit()
    except InputError:  # before the first trial
        shutil.rmtree(home.ray / attempt, ignore_errors=True)
        remove_empty(home.ray, home.path)
        raise
    except TuneError:
        if observer.error is None:
            raise
        raise observer.error from None  # Tune raises the text of a traceback in its place


def _next_attempt(home: DrivenDirectory) -> str:
    """Return the name of a driver's own folder, `attempt-<number>-<random>`, unique on its cluster.

    Ray keeps a working copy of the folder under its name and the second in which it was made. Two drivers that shared
    a copy would write into each other's.
    """
    done = len(list(home.ray.glob("attempt-*"))) if home.ray.exists() else 0
    return f"attempt-{done + 1}-{uuid.uuid4().hex[:8]}"


class TuneSearcher(RaySearcher):
    """Gives Tune the trials of a `Dispatcher`, and tells their runs how they end."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()
        self.dispatcher = dispatcher
        self.trials: dict[str, tuple[Run, int]] = {}  # run and number of each trial that has not ended

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the config of the next trial, None for "not now", or `FINISHED`."""
        found = self.dispatcher.next()
        if found is None:
            return RaySearcher.FINISHED if self.dispatcher.finished else None
        run, number, hyperparameters = found
        self.trials[trial_id] = run, number
        return run.config(number, hyperparameters).as_dict()

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Pass on the end of a trial. Its last result is reported here, because no scheduler sees it."""
        run, number = self.trials.pop(trial_id)
        final = run.spec.metrics.final_accuracy
        if result and "task" in result and not error:
            with self.dispatcher.errors_noted(run):
                run.searcher.report(number, int(result["task"]), float(result[run.spec.metrics.average_accuracy]))
        with self.dispatcher.errors_noted(run):
            run.finish(number, status_of(result, error, final), result.get(final) if result else None)

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing for Tune's snapshot, which is not read."""
        return {}

    def save(self, checkpoint_path: str) -> None:
        """Save nothing: a search continues from its record, not from Tune's snapshot."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing."""


class FreeProcesses(_ObjectCache):
    """Tune's processes without a trial, by their resources. Each waits for `KEPT_SECONDS`, and one for ever.

    Tune itself keeps one, and one for each trial that waits. But when the last trial of a search ends, its
    re-evaluation or its final run has not given a trial yet. Each process that is gone has to start again and to
    import torch.
    """

    def __init__(self) -> None:
        super().__init__()
        self._since: dict[Any, float] = {}

    def cache_object(self, key: Any, obj: Any) -> bool:
        """Keep a process, unless trials with other resources wait; returns whether it is kept."""
        if self._is_other_wanted(key) and len(self._cached_objects[key]) >= self._max_num_objects[key]:
            return False
        self._cached_objects[key].append(obj)
        self._num_cached_objects += 1
        self._since[obj] = time.monotonic()
        return True

    def flush_cached_objects(self, force_all: bool = False) -> Iterator[Any]:
        """Give up the processes that have waited too long, or that take the room of a trial with other resources."""
        for key, processes in self._cached_objects.items():
            wanted = 0 if force_all else self._max_num_objects[key]
            at_once = force_all or self._is_other_wanted(key)
            while len(processes) > wanted and (at_once or self._is_spare(processes[0])):
                self._num_cached_objects -= 1
                yield processes.pop(0)

    def _is_spare(self, process: Any) -> bool:
        return self._num_cached_objects > 1 and time.monotonic() - self._since[process] > KEPT_SECONDS

    def _is_other_wanted(self, key: Any) -> bool:
        """Whether a trial with other resources waits for a process."""
        return any(number for other, number in self._max_num_objects.items() if other != key)


class _PlainClasses(_ActorClassCache):
    """The classes of Tune's processes, without the variables of the driver, which processes of its own Ray have.

    With variables, Ray would not use the processes that it has started in advance. It would start a process that sets
    them first, and before it one that manages such environments.
    """

    def get(self, trainable_cls: type[Trainable]) -> Any:
        """Return the class of an actor, made once."""
        if trainable_cls not in self._cache:
            self._cache[trainable_cls] = ray.remote(trainable_cls)
        return self._cache[trainable_cls]


class TuneScheduler(FIFOScheduler):
    """Runs trials in the order in which they come and stops those that their run's searcher wants stopped."""

    def __init__(self, dispatcher: Dispatcher, *, own_ray: bool = False) -> None:
        super().__init__()
        self.dispatcher = dispatcher
        self._classes = _PlainClasses() if own_ray else None
        self._added = list[Trial]()  # since a trial was last chosen
        self._free = FreeProcesses()

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Note a trial for which no process has been asked. With the first one Tune gets our classes and processes."""
        controller = tune_controller._tune_controller
        if controller._actor_cache is not self._free:
            controller._actor_cache = self._free
            controller._trial_task_failure = partial(_on_process_failed, controller, controller._trial_task_failure)
        if self._classes is not None:
            controller._class_cache = self._classes
        self._added.append(trial)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Return the first trial that was just added, so that it gets a process that has just become free.

        Tune gives that process to the trial that is chosen. `FIFOScheduler` chooses the first one that waits, whose own
        process is starting: Tune ends that one and starts another for the trial that was added. With many slots and
        short trials a search would then start a process for nearly every trial.
        """
        added, self._added = self._added, []
        return next((trial for trial in added if trial.status == Trial.PENDING), None)

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        """Give a trial that ran out of its share of a GPU one more chance, on a whole GPU; its process is gone."""
        shares = 0 < trial.config.get("gpus_per_trial", 0) < 1
        given_up = trial.status == Trial.RUNNING  # Tune stops a trial that it will try again before it says so
        if given_up or not shares or not is_out_of_memory(latest_error(trial)):
            return
        trial.set_config({**trial.config, "gpus_per_trial": 1.0})
        trial.update_resources({**trial.placement_group_factory.required_resources, "GPU": 1})
        trial.max_failures = trial.run_metadata.num_failures
        # Processes that Tune keeps for trials to come would hold on to shares of the GPU that is wanted whole.
        tune_controller._reuse_actors = False
        tune_controller._cleanup_cached_actors(force_all=True)

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Pass a task's result on and return the decision."""
        run = self.dispatcher[trial.config["run"]]
        value, stop = float(result[run.spec.metrics.average_accuracy]), False
        with self.dispatcher.errors_noted(run):
            stop = run.searcher.report(trial.config["trial"], int(result["task"]), value)
        return TrialScheduler.STOP if stop else TrialScheduler.CONTINUE

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing for Tune's snapshot, which is not read."""
        return {}


def _on_process_failed(
    controller: Any, of_tune: Callable[[Trial, Exception], None], trial: Trial, exception: Exception
) -> None:
    """Have Tune try a trial again whose process died, or was dead, when it was to be used again for the trial.

    Tune gives up a trial that fails before it runs. It says twice that such a process died: the second time the trial
    waits for another.
    """
    if trial in controller._resetting_trials:
        controller._resetting_trials.remove(trial)
        if trial.status == Trial.PENDING:
            controller._set_trial_status(trial, Trial.RUNNING)
            controller._unstage_trial_with_resources(trial)
    if trial.status != Trial.PENDING:
        of_tune(trial, exception)
