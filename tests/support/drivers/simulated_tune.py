"""Ray and Tune simulated in this process: whole searches, final runs and campaigns in a second, without training.

Observer, searcher and scheduler of Tune are the real ones, and so is all that is behind them. Trials take turns, one
task each, so that what happens has one order. Their accuracies are a formula of hyperparameters, seed and task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import cloudpickle

from tausearch.execution import Dispatcher, driver as driver_module
from tausearch.execution.observer import Observer
from tausearch.execution.storage_watch import StorageWatch
from tausearch.execution.tune_adapters import TuneScheduler, TuneSearcher
from tausearch.runs import DrivenDirectory
from trainables import metrics
from trainables.data import get_source

SLOTS = 2
_OPTIMA = {"lr": 0.01, "alpha": 1.0, "beta": 1.0}  # elsewhere accuracy is lost, by factors of ten


class Simulation:
    """Stands in for Ray, Tune and the processes of trials.

    Attributes:
        images: Of the evaluation split of each task; accuracies are multiples of 100 / images.
        failing: Numbers of trials whose process fails at its second task.
        diverging: Numbers of trials that diverge at their second task.
        ctrl_c_after: Tasks after which somebody presses Ctrl-C; None for never.
    """

    def __init__(self) -> None:
        self.images = 50
        self.failing: set[int] = set()
        self.diverging: set[int] = set()
        self.ctrl_c_after: int | None = None

    def installed(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Simulation:
        """Have all drivers run their trials here; `folder` is for files of failures."""
        self._folder = folder
        monkeypatch.setattr(driver_module, "ray_session", _nothing)
        monkeypatch.setattr(driver_module, "raylet_watched", _nothing)
        monkeypatch.setattr(driver_module, "cluster_capacity", lambda: (float(SLOTS), 0.0))
        monkeypatch.setattr("os.sched_getaffinity", lambda process: set(range(SLOTS)))
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        monkeypatch.setattr(driver_module, "run_on_tune", self.run_on_tune)
        return self

    def run_on_tune(
        self,
        dispatcher: Dispatcher,
        home: DrivenDirectory,
        trainable: type,
        on_step: Callable[[], None],
        watch: StorageWatch,
        *,
        before_first: Callable[[], None],
        own_ray: bool,
    ) -> None:
        """Stand in for `tausearch.execution.tune_adapters.run_on_tune`."""
        observer = Observer(dispatcher, on_step, watch, before_first)
        searcher, scheduler = TuneSearcher(dispatcher), TuneScheduler(dispatcher)
        running: list[Any] = []
        tasks = 0
        while True:
            observer.on_step_begin(0, running)
            while len(running) < SLOTS and isinstance(config := searcher.suggest(f"{tasks}-{len(running)}"), dict):
                running.append(self._trial(f"{tasks}-{len(running)}", config))
                observer.on_trial_start(0, running, running[-1])
            if not running:
                break
            trial = running.pop(0)
            if self._goes_on(trial, observer, searcher, scheduler):
                running.append(trial)
            tasks += 1
            if tasks == self.ctrl_c_after:
                self.ctrl_c_after = None
                raise KeyboardInterrupt
        observer.on_experiment_end(running)

    def _trial(self, name: str, config: dict[str, Any]) -> Any:
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return SimpleNamespace(
            trial_id=name,
            config=config,
            task=config["tasks_done"],
            matrix=[
                [self._accuracy(config, t, k) for k in range(1, t + 1)] for t in range(1, config["tasks_done"] + 1)
            ],
            status="RUNNING",
            local_path=str(folder / "local"),
            path=str(folder / "stored"),
            error_file=str(folder / "error.txt"),
            pickled_error_file=str(folder / "error.pkl"),
            num_failures=3,
            run_metadata=SimpleNamespace(metric_analysis={}, metric_n_steps={}, last_result={}),
        )

    def _goes_on(self, trial: Any, observer: Observer, searcher: TuneSearcher, scheduler: TuneScheduler) -> bool:
        """Run a trial's next task, and tell of it as Tune does; returns whether the trial goes on."""
        trial.task += 1
        number = trial.config["trial"]
        if trial.task == 2 and number in self.failing:
            Path(trial.pickled_error_file).write_bytes(cloudpickle.dumps(ValueError("no room")))
            Path(trial.error_file).write_text("Traceback\nValueError: no room\n")
            observer.on_trial_error(0, [], trial)
            searcher.on_trial_complete(trial.trial_id, error=True)
            return False
        result = self._row(trial)
        if trial.task == 2 and number in self.diverging:
            worst = metrics.names_of(trial.config["purpose"]).average_accuracy
            result = {"task": 2.0, worst: 0.0, "diverged": "the loss of task 2 is nan", "done": True}
        if not result["done"]:
            result["done"] = scheduler.on_trial_result(None, trial, result) == TuneScheduler.STOP
        observer.on_trial_result(0, [], trial, result)
        if not result["done"]:
            return True
        searcher.on_trial_complete(trial.trial_id, result)
        observer.on_trial_complete(0, [], trial)
        return False

    def _row(self, trial: Any) -> dict[str, Any]:
        """Return the row of a task, as `IncrementalSequence` makes it."""
        config, task = trial.config, trial.task
        accuracies = [self._accuracy(config, task, k) for k in range(1, task + 1)]
        trial.matrix.append(accuracies)
        names = metrics.names_of(config["purpose"])
        row: dict[str, Any] = {"task": float(task), metrics.TRAIN_LOSS: 1.0 / task, metrics.CACHE_HIT: float(task % 2)}
        row |= {metrics.seconds(stage): 0.5 + number for number, stage in enumerate(metrics.STAGES)}
        row |= {names.accuracy(k): accuracy for k, accuracy in enumerate(accuracies, start=1)}
        row[names.average_accuracy] = metrics.average_accuracy(accuracies)
        last = task == _tasks(config["benchmark"], config["method"])
        if last:
            row[names.final_accuracy] = row[names.average_accuracy]
            row[names.pooled_accuracy] = metrics.pooled_accuracy(accuracies, [self.images] * task)
            row[names.forgetting] = metrics.forgetting(trial.matrix)
            row[names.average_incremental_accuracy] = metrics.average_incremental_accuracy(trial.matrix)
        return {**row, "done": last}

    def _accuracy(self, config: dict[str, Any], task: int, on: int) -> float:
        """Return the accuracy on a task after another one, percent."""
        hyperparameters = config["hyperparameters"]
        misses = [
            abs(math.log10(hyperparameters[name] / best)) for name, best in _OPTIMA.items() if hyperparameters.get(name)
        ]
        lost = (
            4 * sum(misses)
            + 1.5 * (task - on)
            + 2 * ((config["seed"] + on) % 3)
            + 10 * (config["benchmark"] != "digits")
        )
        right = round(max(0.0, 0.96 - lost / 100) * self.images)
        return 100.0 * right / self.images


@cache
def _tasks(benchmark: str, method: str) -> int:
    """Return the number of steps of a trial."""
    return 1 if method == "joint" else get_source(benchmark).num_tasks


@contextmanager
def _nothing(*words: object, **options: object) -> Iterator[None]:
    yield
