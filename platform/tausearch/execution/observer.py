"""Turn Tune's events into changes of trials, for the record, MLflow and the progress display."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from ray import cloudpickle, tune
from ray.exceptions import RayActorError, RayTaskError

from tausearch.execution.checkpoints import remove_checkpoints
from tausearch.execution.dispatcher import Dispatcher
from tausearch.execution.run import Run
from tausearch.execution.storage_watch import StorageWatch
from tausearch.runs import Status, TrialSummary, final_value, metrics_of
from trainables.errors import OtherImagesError


class Observer(tune.Callback):
    """The Tune callback of a driver. It updates a run's table of trials before it tells the listeners.

    Args:
        dispatcher: The runs, whose listeners receive the changes of their trials.
        on_step: Called in every step of Tune's event loop.
        watch: Notes errors of the storage.
        before_first: Called before the listeners are told of the first change, until it raises no error.

    Attributes:
        error: The error of a listener that ends the driver, and that the storage has not caused; None without one.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        on_step: Callable[[], None],
        watch: StorageWatch,
        before_first: Callable[[], None] = lambda: None,
    ) -> None:
        self.dispatcher = dispatcher
        self.on_step = on_step
        self.watch = watch
        self.error: OSError | None = None
        self._before_first: Callable[[], None] | None = before_first
        self._ended: list[tuple[Run, Any]] = []  # with Tune's trial; since Tune's last step

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing for Tune's snapshot, which is not read."""
        return {}

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Tune starts a step of its event loop."""
        self._clean_up()
        self.on_step()

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Tune is done."""
        self._clean_up()

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial starts, or starts again after its process died."""
        self._tell(self._run(trial), self._summary(trial))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """A task is done. The result of a task that is repeated after a failure replaces the first one.

        The end of a trial is noted together with its last task, which has no checkpoint.
        """
        summary = self._summary(trial)
        if result.get("diverged"):
            summary = replace(summary, error=str(result["diverged"]))
        else:
            row = metrics_of(result)
            rows = [other for other in summary.rows if other["task"] < row["task"]] + [row]
            summary = replace(summary, rows=rows, value=final_value(row))
        if result.get("done"):  # Tune sets it for trials that are stopped early, too
            summary = replace(summary, status=status_of(result, False, self._run(trial).spec.metrics.final_accuracy))
        self._tell(self._run(trial), summary)
        trial.config["tasks_done"] = summary.tasks_done  # if its process dies, Tune starts it again with its config

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial is over."""
        if self._summary(trial).has_ended:
            self._ended.append((self._run(trial), trial))

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial's process failed for the last time.

        If it could not write, or met other images than its run began with, which ends the run, it can be continued.
        """
        error = latest_error(trial)
        if self.watch.is_storage_error(error):
            return
        if isinstance(cause := cause_of(error), OtherImagesError):  # each trial to come would fail, too
            self.dispatcher.queue.stop_run(self._run(trial), cause)
            return
        summary = replace(self._summary(trial), status="failed", error=_reason(trial))
        self._tell(self._run(trial), summary)
        self._ended.append((self._run(trial), trial))

    def _clean_up(self) -> None:
        """Remove the checkpoints of ended trials and what Tune keeps about them, which it reads until its next step."""
        while self._ended:
            run, trial = self._ended.pop()
            _forget_results(trial)
            for folder in (trial.local_path, trial.path):  # Tune copies the first to the second, though it is empty
                with suppress(OSError):  # an error's text lies in it
                    Path(folder).rmdir()
            remove_checkpoints(run.directory, trial.config["trial"])

    def _run(self, trial: Any) -> Run:
        return self.dispatcher[trial.config["run"]]

    def _summary(self, trial: Any) -> TrialSummary:
        config = trial.config
        return self._run(trial).summary(config["trial"], config["seed"], config["hyperparameters"])

    def _tell(self, run: Run, summary: TrialSummary) -> None:
        if self._before_first is not None:
            self._before_first()
            self._before_first = None
        run.tune_trials.trials.put(summary)
        # Once the storage has failed, the record may lack what the table has: only the record is told.
        receivers = run.listeners if self.watch.problem is None else run.listeners[:1]
        try:
            for listener in receivers:
                with self.dispatcher.errors_noted(run):  # on several benchmarks a listener asks the pruner
                    listener.trial_changed(summary)
        except OSError as error:
            if not self.watch.is_storage_error(error):
                self.error = error
                raise


def _reason(trial: Any) -> str:
    """Return in one line why a trial failed: the last line of its traceback, which `explaining` has added.

    A dead process has no traceback, and Ray's own text about it has many lines.
    """
    error = latest_error(trial)
    if isinstance(error, RayActorError) and not error.actor_init_failed:
        return f"its process died (killed, crashed, short of memory, or with its node); failures: {trial.num_failures}"
    text = ""
    with suppress(OSError):  # the traceback in Tune's file on the driver's machine
        text = Path(trial.error_file or "").read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "unknown error"


def _forget_results(trial: Any) -> None:
    """Empty what Tune keeps of a trial that has ended: results and statistics of metrics. Nobody reads them.

    With those of thousands of trials in memory, every allocation takes longer.
    """
    kept = trial.run_metadata
    kept.metric_analysis.clear()
    kept.metric_n_steps.clear()
    kept.last_result = {}
    trial._default_result_or_future = None  # in Ray's memory


def latest_error(trial: Any) -> Exception | None:
    """Return the latest error of a trial's process, None if there was none.

    Tune's own `get_pickled_error` reads the copy in the storage, which Tune makes some time after it reports the error.
    """
    path, error = trial.pickled_error_file, None
    with suppress(OSError):
        error = None if path is None else cloudpickle.loads(Path(path).read_bytes())
    return error


def cause_of(error: BaseException | None) -> BaseException | None:
    """Return the error that a trial's process raised, without what Ray has put around it."""
    return error.cause if isinstance(error, RayTaskError) else error


def is_out_of_memory(error: Exception | None) -> bool:
    """Whether a trial's process ended because its GPU had no memory left for it."""
    return isinstance(cause_of(error), torch.OutOfMemoryError)


def status_of(result: Mapping[str, Any] | None, error: bool, final_metric: str) -> Status:
    """Say how a trial ended, from its last result and whether its process gave up."""
    if error:
        return "failed"
    if result and result.get("diverged"):
        return "diverged"
    return "complete" if result and result.get(final_metric) is not None else "pruned"
