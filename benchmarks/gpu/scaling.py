"""From a measured task of few images to a trial on a whole dataset, and from a trial to the GPU hours of a search.

Each part of a task scales with what it does:

- training: what it takes once per task, and epochs times the time of one. An epoch reads its first images before it
  computes, and then does both at once, so its time is a line through those of the two tasks;
- evaluation after task t: images of t tasks. With few images reading and computing overlap less: an upper estimate;
- what a method does when a task begins and its pre-consolidation is there: once per task;
- pre-consolidation: mixtures and linear probing a line through those of the two tasks, the Fisher with images, and
  alignment with classes seen so far times its epochs, 10 + 5 (t - 1).

A step of the second task of a composable method takes a little longer than one of the first, which makes the line of
training a little steeper. A Fisher over fewer than nine classes has fewer backward passes; the first task's is counted
in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from benchmarks.gpu.drawn import TASKS, Shape
from benchmarks.planning.table import ASHA
from trainables.preconsolidation.probing import ALIGNMENT_EPOCHS


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The second of two tasks: how much it had, and the seconds of its parts; some of the first, too."""

    images: int  # training images
    first_images: int  # those of the first task
    epochs: int  # passes over them
    evaluated: int  # evaluation images of both tasks
    classes: int  # classes of both tasks
    fisher_images: int  # images that the Fisher was taken over
    begin: float  # until training, with the pre-consolidation in the cache
    training: float  # the whole training
    epoch: float  # one epoch after the first one, on average
    first_epoch: float  # the same of the first task
    evaluation: float  # the whole evaluation
    statistics: float = 0.0  # mixtures and linear probing
    first_statistics: float = 0.0  # the same of the first task
    alignment: float = 0.0  # alignment of the head
    fisher: float = 0.0  # the Fisher

    @classmethod
    def of(cls, row: dict[str, Any]) -> Measured:
        """Return what a row of the benchmark measured."""
        return cls(**{each.name: row[each.name] for each in fields(cls)})

    def on_line(self, first: float, second: float, images: float) -> float:
        """Return the seconds for so many images, on the line through those of the first and the second task.

        Where the second took less time than the first, which is noise, more images take as long.
        """
        return second + max(0.0, second - first) * (images - self.images) / (self.images - self.first_images)


@dataclass(frozen=True)
class TaskCost:
    """Seconds of one task of a trial: pre-consolidation, which trials may share, and the rest."""

    shared: float
    begin: float
    training: float
    evaluation: float

    @property
    def own(self) -> float:
        """What every trial takes."""
        return self.begin + self.training + self.evaluation


def alignment_epochs(task: int) -> int:
    """Return the epochs of alignment in a task (1-based)."""
    return ALIGNMENT_EPOCHS[0] + ALIGNMENT_EPOCHS[1] * (task - 1)


def whole(measured: Measured, shape: Shape) -> list[TaskCost]:
    """Return the seconds of each task of a trial on the whole dataset."""
    m = measured
    once = max(0.0, m.training - m.epochs * m.epoch)
    epoch = m.on_line(m.first_epoch, m.epoch, shape.images)
    by_image = m.on_line(m.first_statistics, m.statistics, shape.images) + m.fisher * shape.images / m.fisher_images
    by_class = m.alignment / (m.classes * alignment_epochs(TASKS))
    return [
        TaskCost(
            by_image + by_class * shape.classes * task * alignment_epochs(task),
            m.begin,
            once + shape.epochs * epoch,
            m.evaluation * task * shape.evaluated / m.evaluated,
        )
        for task in range(1, shape.tasks + 1)
    ]


def gpu_hours(
    tasks: Sequence[TaskCost], trials: int, share: float, *, shared: bool, early_stopping: bool = False
) -> float:
    """Return the GPU hours of a search whose trials have a share of a GPU each.

    If it is `shared`, only one trial computes the pre-consolidation. With early stopping the worse half of the trials
    ends after the third task, and of the rest after the sixth.
    """
    stops = {after: ends for after, ends in ASHA if early_stopping and after < len(tasks)}
    seconds, left = 0.0, float(trials)
    for number, task in enumerate(tasks, start=1):
        seconds += left * task.own + (1 if shared else left) * task.shared
        left *= 1 - stops.get(number, 0.0)
    return seconds * share / 3600
