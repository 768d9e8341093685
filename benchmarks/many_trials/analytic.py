"""Trials that compute nothing: accuracies by a formula.

Their processes import this module, so it imports no more than they need.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from pathlib import Path
from typing import Any, ClassVar

from ray import tune

from trainables.metrics import names_of, seconds


def accuracy(hyperparameters: dict[str, Any], task: int) -> float:
    """Return an average accuracy that falls with tasks and is best at alpha = 1 and lr = 0.01."""
    miss = abs(math.log10(hyperparameters["alpha"])) + abs(math.log10(hyperparameters["lr"]) + 2)
    return 100.0 - 3 * task - miss * task


class AnalyticTrial(tune.Trainable):
    """Reports the metrics row of each task at once.

    Its config is a `TrialConfig` as a dictionary; `hyperparameters` holds `alpha` and `lr`.
    """

    tasks: ClassVar[int] = 10  # their number
    seconds_per_task: ClassVar[float] = 0.0  # how long it waits before it reports one

    def setup(self, config: dict[str, Any]) -> None:
        """Start before the first task."""
        self.hyperparameters = config["hyperparameters"]
        self.names = names_of(config["purpose"])
        self.task = config.get("tasks_done", 0)
        self.checkpoints = Path(config["checkpoints"]) if "checkpoints" in config else None  # None: Tune asks for them

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Start again as another trial."""
        self.setup(new_config)
        return True

    def step(self) -> dict[str, Any]:
        """Report one task."""
        time.sleep(self.seconds_per_task)
        self.task += 1
        values = [accuracy(self.hyperparameters, self.task)] * self.task
        row = {self.names.accuracy(k): value for k, value in enumerate(values, start=1)}
        row |= {"task": float(self.task), self.names.average_accuracy: values[0], seconds("training"): 0.0}
        last = self.task == self.tasks
        if last:
            row |= {self.names.final_accuracy: values[0], self.names.forgetting: 0.0}
        if self.checkpoints is not None and not last:
            folder = self.checkpoints / f"task-{self.task}"
            folder.mkdir(parents=True, exist_ok=True)
            self.save_checkpoint(str(folder))
            shutil.rmtree(self.checkpoints / f"task-{self.task - 2}", ignore_errors=True)
        return {**row, "done": last}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the number of tasks done."""
        (Path(checkpoint_dir) / "state.json").write_text(json.dumps(self.task))

    def load_checkpoint(self, checkpoint_dir: str | dict[str, Any] | None) -> None:
        """Go on after the tasks done."""
        self.task = json.loads((Path(str(checkpoint_dir)) / "state.json").read_text())


class SecondTrial(AnalyticTrial):
    """Takes a second for its only task."""

    tasks: ClassVar[int] = 1
    seconds_per_task: ClassVar[float] = 1.0


class HalfSecondTasks(AnalyticTrial):
    """Takes half a second for each of ten tasks."""

    seconds_per_task: ClassVar[float] = 0.5
