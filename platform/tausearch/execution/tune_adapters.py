"""What Tune asks for, answered by a `Dispatcher`: which trial comes next, and whether one should stop.

Tune's own OptunaSearch is not used because it tells Optuna that a trial stopped early is complete, and leaves one that
reported NaN running for ever. Tune's own schedulers are not used because their state does not survive a resume.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from ray import cloudpickle
from ray.exceptions import RayTaskError
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from tausearch.execution.dispatcher import Dispatcher
from tausearch.execution.run import Run
from tausearch.runs import Status


class TuneSearcher(Searcher):
    """Gives Tune the trials of a `Dispatcher`, and tells their runs how they end."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()
        self.dispatcher = dispatcher
        self.trials: dict[str, tuple[Run, int]] = {}  # run and number of each trial that has not ended

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the config of the next trial, None for "not now", or `FINISHED`."""
        found = self.dispatcher.next()
        if found is None:
            return Searcher.FINISHED if self.dispatcher.finished else None
        run, number, hyperparameters = found
        self.trials[trial_id] = run, number
        return run.config(number, hyperparameters).as_dict()

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Pass on the end of a trial. Its last result is reported here, because no scheduler sees it."""
        run, number = self.trials.pop(trial_id)
        final = run.spec.metrics.final_accuracy
        if result and "task" in result and not error:
            run.searcher.report(number, int(result["task"]), float(result[run.spec.metrics.average_accuracy]))
        run.finish(number, status_of(result, error, final), result.get(final) if result else None)

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing for Tune's snapshot, which is not read."""
        return {}

    def save(self, checkpoint_path: str) -> None:
        """Save nothing: a search continues from its record, not from Tune's snapshot."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing."""


class TuneScheduler(FIFOScheduler):
    """Runs trials in the order in which they come and stops those that their run's searcher wants stopped."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()
        self.dispatcher = dispatcher

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
        value = float(result[run.spec.metrics.average_accuracy])
        stop = run.searcher.report(trial.config["trial"], int(result["task"]), value)
        return TrialScheduler.STOP if stop else TrialScheduler.CONTINUE

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing for Tune's snapshot, which is not read."""
        return {}


def latest_error(trial: Any) -> Exception | None:
    """Return the latest error of a trial's process, None if there was none.

    Tune writes it on this machine before it tells anybody. Its own `get_pickled_error` reads the copy in the storage,
    which is made some time later: until then it knows of no error.
    """
    path = trial.pickled_error_file
    try:
        error: Exception | None = None if path is None else cloudpickle.loads(Path(path).read_bytes())
    except OSError:
        return None
    return error


def is_out_of_memory(error: Exception | None) -> bool:
    """Whether a trial's process ended because its GPU had no memory left for it."""
    cause = error.cause if isinstance(error, RayTaskError) else error
    return isinstance(cause, torch.OutOfMemoryError)


def status_of(result: Mapping[str, Any] | None, error: bool, final_metric: str) -> Status:
    """Say how a trial ended, from its last result and whether its process gave up."""
    if error:
        return "failed"
    if result and result.get("diverged"):
        return "diverged"
    return "complete" if result and result.get(final_metric) is not None else "pruned"
