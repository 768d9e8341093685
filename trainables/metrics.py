"""Class-incremental metrics of an accuracy matrix.

a[i][j] is the accuracy in percent on task j's evaluation images, over the logits of all classes seen so far, after
training task i (both 0-based here); only j <= i exists.
"""

from __future__ import annotations

from collections.abc import Sequence

AccuracyMatrix = Sequence[Sequence[float]]


def average_accuracy(accuracies: Sequence[float]) -> float:
    """Return the mean over tasks of one row: after the last task this is the final accuracy (FA)."""
    return sum(accuracies) / len(accuracies)


def forgetting(matrix: AccuracyMatrix) -> float:
    """Return final forgetting (FF): the mean over tasks j < T of max_{i < T} a[i][j] - a[T][j].

    It can be negative where later tasks help earlier ones. With fewer than two rows nothing can be forgotten: 0.

    Source: Chaudhry et al. 2018, https://arxiv.org/abs/1801.10112, section 5; percentages instead of shares.
    """
    last = len(matrix) - 1
    if last < 1:
        return 0.0
    drops = [max(matrix[i][j] for i in range(j, last)) - matrix[last][j] for j in range(last)]
    return sum(drops) / last
