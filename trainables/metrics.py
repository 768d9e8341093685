"""Metrics of a trial: their names, and class-incremental metrics of an accuracy matrix.

a[i][j] is the accuracy in percent on task j's evaluation images, over the logits of all classes seen so far, after
training task i (both 0-based here); only j <= i exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trainables.config import Purpose

AccuracyMatrix = Sequence[Sequence[float]]

TRAIN_LOSS = "train/loss"
PEAK_GPU_BYTES = "memory/peak_gpu_bytes"
CACHE_HIT = "cache/hit"  # 1 if the cache had a task's pre-consolidation, 0 if it was computed
PRECONSOLIDATION = "preconsolidation"
STAGES = (PRECONSOLIDATION, "training", "evaluation")
_SECONDS = "seconds/"
WAITING = f"{_SECONDS}waiting"  # of the training, until batches were there
_CIRCUMSTANCES = (_SECONDS, "memory/", "cache/")
_KINDS = ("val/", "test/", "train/", *_CIRCUMSTANCES)


class MetricNames(NamedTuple):
    """Names of a trial's accuracies; the prefix is "val" in a search and "test" in a final run."""

    prefix: str
    average_accuracy: str  # mean over the tasks seen so far; in every row
    final_accuracy: str  # average accuracy after the last task; this and the others are in its row alone
    pooled_accuracy: str  # over the images of all tasks together
    forgetting: str  # final forgetting
    average_incremental_accuracy: str  # mean over t of the average accuracy after task t; not of a joint method

    def accuracy(self, task: int) -> str:
        """Return the name of the accuracy on one task (1-based)."""
        return f"{self.prefix}/accuracy/task_{task}"

    @property
    def removability(self) -> tuple[str, str, str, str]:
        """Names of what a task loses without its vector, see `removability`."""
        name = f"{self.prefix}/removability"
        return name, f"{name}/target", f"{name}/rest", f"{name}/forgotten"


VALIDATION, TEST = (
    MetricNames(prefix, *(f"{prefix}/{name}" for name in MetricNames._fields[1:])) for prefix in ("val", "test")
)


def names_of(purpose: Purpose) -> MetricNames:
    """Return the names of a search's or a final run's accuracies."""
    return VALIDATION if purpose == "search" else TEST


def seconds(stage: str) -> str:
    """Return the name of a stage's duration."""
    return f"{_SECONDS}{stage}"


def is_seconds(name: str) -> bool:
    """Whether a metric is the duration of a stage: their sum is the trial's time, and `WAITING` is part of one."""
    return name.startswith(_SECONDS) and name != WAITING


def repeatable(row: Mapping[str, float]) -> dict[str, float]:
    """Return the reproducible part of a metrics row: without time, memory and cache hits."""
    return {name: value for name, value in row.items() if not name.startswith(_CIRCUMSTANCES)}


def is_metric(name: str) -> bool:
    """Whether a value that Tune reports is one of a trial's metrics, and not one of Tune's own."""
    return name.startswith(_KINDS)


def average_accuracy(accuracies: Sequence[float]) -> float:
    """Return the mean over tasks of one row: after the last task this is the final accuracy (FA).

    Rounded to a billionth, so that equal means of different accuracies are equal numbers, and ties are ties.
    """
    return round(sum(accuracies) / len(accuracies), 9)


def average_incremental_accuracy(matrix: AccuracyMatrix) -> float:
    """Return the mean over tasks t of the average accuracy after task t.

    Source: Rebuffi et al. 2017, https://arxiv.org/abs/1611.07725, section 4, on tasks of equal size: there each class
    seen so far counts the same, here each task.
    """
    return average_accuracy([average_accuracy(row) for row in matrix])


def pooled_accuracy(accuracies: Sequence[float], images: Sequence[int]) -> float:
    """Return the accuracy over the images of all tasks together, from that of each task and its images, percent."""
    right = [round(accuracy * count / 100) for accuracy, count in zip(accuracies, images, strict=True)]
    return 100.0 * sum(right) / sum(images)


def forgetting(matrix: AccuracyMatrix) -> float:
    """Return final forgetting (FF): the mean over tasks j < T of max_{i < T} a[i][j] - a[T][j].

    It is negative where later tasks help earlier ones, and 0 with fewer than two rows.

    Source: Chaudhry et al. 2018, https://arxiv.org/abs/1801.10112, section 5; percentages instead of shares.
    """
    last = len(matrix) - 1
    if last < 1:
        return 0.0
    drops = [max(matrix[i][j] for i in range(j, last)) - matrix[last][j] for j in range(last)]
    return round(sum(drops) / last, 9) + 0.0  # no -0.0


def removability(
    whole: Sequence[float], without: AccuracyMatrix, forgotten: AccuracyMatrix
) -> tuple[float, float, float, float]:
    """Return how far a task falls that is left out, as means over the tasks, in percentage points.

    Args:
        whole: Accuracy on every task of the composition of all task vectors; two tasks or more.
        without: Row t is that of the composition without the vector of task t.
        forgotten: Row t is that of the composition without the vector and the rows of task t; 0 on task t itself.

    Returns:
        The fall of the task beyond that of the others, the fall of the task, the fall of the others; all without its
        vector. The last is the first without its rows, too.
    """
    target, rest = _falls(whole, without)
    beyond = [gone - kept for gone, kept in ((target, rest), _falls(whole, forgotten))]
    return round(beyond[0], 9), round(target, 9), round(rest, 9), round(beyond[1], 9)


def _falls(whole: Sequence[float], without: AccuracyMatrix) -> tuple[float, float]:
    """Return the mean falls of the task that is left out, and of the others."""
    tasks = range(len(whole))
    target = sum(whole[t] - without[t][t] for t in tasks) / len(whole)
    rest = sum(whole[j] - without[t][j] for t in tasks for j in tasks if j != t) / (len(whole) * (len(whole) - 1))
    return target, rest
