"""What a method is: the contract between an incremental learner and the sequence that drives it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from trainables import precision
from trainables.backbones import Backbone
from trainables.composition import Origin
from trainables.config import Precision
from trainables.data import Task
from trainables.preconsolidation import Consolidation
from trainables.state import SILENT, Epoch, State


@dataclass(frozen=True)
class Capabilities:
    """What a method declares about itself, so that nobody asks for its name.

    Attributes:
        composable: Whether it learns one task vector per task and evaluates their composition.
        needs_preconsolidation: Whether `begin_task` is given the task's pre-consolidation; its config then has
            `preconsolidation`.
        joint: Whether it sees all tasks at once, so that its sequence has one step.
        writes_artifacts: Whether `save_artifacts` writes something after every task.
        rehearsal: Whether it keeps examples of past tasks and trains on them again.
        tasks_to_peak: How many tasks a pilot must run until the memory that it takes has peaked.
    """

    composable: bool = False
    needs_preconsolidation: bool = False
    joint: bool = False
    writes_artifacts: bool = False
    rehearsal: bool = False
    tasks_to_peak: int = 1


@dataclass(frozen=True)
class ExtraMetric:
    """A number that a method reports beside those of every method.

    Attributes:
        name: The name in the metrics row, such as `train/euler_factor`.
        unit: The unit to show; "1" for a ratio.
        limit: The value from which on a trial deserves a warning; None where none does.
        warning: Template of that line, with the fields `trial` (its number), `worst` (the largest value), `task` (the
            first at the limit or above) and `limit`.
    """

    name: str
    unit: str
    limit: float | None = None
    warning: str = ""

    def warn(self, trial: int, rows: Iterable[Mapping[str, Any]]) -> str | None:
        """Return the line about a trial that reached the limit; None if it did not.

        Args:
            trial: The number of the trial.
            rows: The trial's metrics rows in order; a row without the metric counts as below the limit.
        """
        values = {int(row["task"]): row[self.name] for row in rows if self.name in row}
        reached = [task for task, value in values.items() if self.limit is not None and value >= self.limit]
        if not reached:
            return None
        return self.warning.format(trial=trial, worst=max(values.values()), task=reached[0], limit=self.limit)


@dataclass(frozen=True)
class Setting:
    """What is known of a trial before any image or weight is read: enough to refuse what cannot run.

    Attributes:
        backbone: The pre-trained network, by name.
        task_classes: Classes of every task of the sequence, in order; consecutive positions in the class order.
    """

    backbone: Backbone
    task_classes: tuple[range, ...]

    @property
    def num_tasks(self) -> int:
        """Number of tasks, T; 1 for a method that sees all tasks at once."""
        return len(self.task_classes)

    @property
    def num_classes(self) -> int:
        """Number of classes of all tasks together, C."""
        return self.task_classes[-1].stop


@dataclass(frozen=True)
class Context(Setting):
    """What a method is handed when it is made.

    Attributes:
        epochs: Passes over a task's training images.
        batch_size: Examples per optimiser step.
        seed: The seed of the trial.
        device: The device to compute on.
        precision: "bf16" runs forward passes of fine-tuning and evaluation under autocast.
        on_epoch: Told after every epoch how many of the task are done; must return at once, and change nothing.
    """

    epochs: int
    batch_size: int
    seed: int
    device: torch.device
    precision: Precision = "fp32"
    on_epoch: Callable[[Epoch], None] = SILENT

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context in which forward passes of the backbone run: bf16 autocast if the precision says so."""
        return precision.autocast(self.precision, self.device)

    def features(self, model: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
        """Run the backbone, under bf16 autocast if the precision says so.

        Heads stay out of it: logits with the eight bits of bf16 would tie, and ties go to the older class.

        Args:
            model: The backbone, from `(b, c, h, w)` to `(b, d)`.
            images: The images, `(b, c, h, w)`.

        Returns:
            The features, `(b, d)`, in the precision of the heads.
        """
        return precision.features(model, images, self.precision, self.device)


class Method(Protocol):
    """An incremental learner: begin a task, train on it, end it, predict over all classes seen so far."""

    def begin_task(self, task: Task, consolidation: Consolidation | None) -> None:
        """Prepare for a task; `consolidation` is given if the capabilities ask for it."""
        ...

    def train_task(self, task: Task) -> dict[str, float]:
        """Train on the task begun last; returns metrics, among them `train/loss`.

        Raises:
            DivergedError: If the loss or the weights become NaN or infinite.
        """
        ...

    def end_task(self, task: Task) -> None:
        """Do what follows the training of a task: compose, consolidate."""
        ...

    def predict(self, images: Tensor) -> Tensor:
        """Return logits over all classes seen so far: `(b, c, h, w)` to `(b, C_seen)`."""
        ...

    def save_artifacts(self, folder: Path, origin: Origin) -> None:
        """Write what the task just ended has learned for use elsewhere, if there is such a thing.

        Args:
            folder: The folder to write to; one folder per task is made in it.
            origin: Says which task it was, of which method and backbone.
        """
        ...

    def state(self) -> State:
        """Return ALL state that later tasks depend on; called between tasks.

        It may be the method's own memory: it is written before the next task begins. What never changes once a task has
        left it belongs under `constant`, where it is written once and not with every checkpoint.
        """
        ...

    def load_state(self, state: State) -> None:
        """Continue from what `state` returned, onto the present device.

        Tensors may be mapped from files: those of `constant` for as long as the trial runs, those of `tensors` only
        until the next checkpoint. So what is kept of `tensors` is copied.
        """
        ...
