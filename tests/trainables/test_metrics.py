"""Metrics worked out by hand and by loops as one would write them on a board; accuracy by counting."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from trainables.data import ImageSet
from trainables.data.transforms import Normalise
from trainables.evaluation import EVALUATION_BATCH, accuracies, accuracy
from trainables.metrics import average_accuracy, forgetting, is_metric, pooled_accuracy, repeatable

percent = st.floats(0, 100)
matrices = st.integers(1, 7).flatmap(
    lambda tasks: st.tuples(*(st.lists(percent, min_size=i, max_size=i) for i in range(1, tasks + 1)))
)


@given(matrices)
def test_forgetting_and_average_accuracy(matrix: tuple[list[float], ...]) -> None:
    last, drops = len(matrix), []
    for j in range(1, last):  # 1-based, as in the papers: f_j = max_{l in {j..T-1}} a_{l,j} - a_{T,j}
        best = -1.0
        for row in range(j, last):
            best = max(best, matrix[row - 1][j - 1])
        drops.append(best - matrix[last - 1][j - 1])
    assert forgetting(matrix) == pytest.approx(sum(drops) / len(drops) if drops else 0.0)
    assert average_accuracy(matrix[-1]) == pytest.approx(float(torch.tensor(matrix[-1], dtype=torch.float64).mean()))


def test_equal_means_of_different_accuracies_are_equal_numbers() -> None:
    one, other = [0.1, 0.2, 0.3], [0.3, 0.2, 0.1]  # floats whose sums differ
    assert sum(one) != sum(other) and average_accuracy(one) == average_accuracy(other)
    drops = [forgetting([row[:1], row[:2], row, [0.0] * 4]) for row in (one, other)]
    assert drops[0] == drops[1] == 0.2


def test_a_joint_method_forgets_nothing() -> None:
    assert forgetting([[50.0, 40.0]]) == 0.0  # one row, several tasks


def test_pooled_accuracy_counts_images_and_not_tasks() -> None:
    assert pooled_accuracy([50.0, 100.0], [30, 10]) == 62.5
    assert pooled_accuracy([100 / 3, 0.0, 100.0], [3, 4, 1]) == 25.0  # two of eight, though 100 / 3 is rounded
    with pytest.raises(ValueError):
        pooled_accuracy([50.0], [30, 10])


def test_the_trials_own_metrics_and_their_reproducible_part() -> None:
    same = ["val/average_accuracy", "test/forgetting", "train/loss"]
    circumstances = ["seconds/training", "memory/peak_gpu_bytes", "cache/hit"]
    row = dict.fromkeys([*same, *circumstances, "time_total_s"], 1.0)
    assert list(filter(is_metric, row)) == [*same, *circumstances]
    assert list(repeatable(row)) == [*same, "time_total_s"]


def images_of(labels: Tensor, shown: Tensor) -> ImageSet:
    """Images whose only pixel is the class that they are taken for."""
    return ImageSet(shown.to(torch.uint8)[:, None, None, None], labels, Normalise((0.0,), (1.0,)))


def test_percent_of_the_whole_set_over_uneven_batches() -> None:
    labels = torch.arange(EVALUATION_BATCH + 44) % 4
    sizes = []

    def predict(x: Tensor) -> Tensor:
        sizes.append(len(x))
        return torch.nn.functional.one_hot((x[:, 0, 0, 0] * 255).round().long(), 4).float()

    sets = [images_of(labels, labels.clamp(max=2)), images_of(labels[labels < 3], labels[labels < 3])]
    assert accuracies(predict, sets, "cpu") == [75.0, 100.0]
    assert sizes == [EVALUATION_BATCH, 44, 225]
    first = accuracy(lambda x: torch.zeros(len(x), 4), sets[1], torch.device("cpu"))
    assert first == pytest.approx(100 / 3)  # of equal logits the first: class 3 has no image


classified = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=9)


@settings(max_examples=50)
@given(st.lists(classified, min_size=1, max_size=5))
def test_accuracy_counts_images(tasks: list[list[tuple[int, int]]]) -> None:
    """Each image is a label and the class that it is taken for, which the image itself says."""

    def predict(x: Tensor) -> Tensor:
        return torch.nn.functional.one_hot((x[:, 0, 0, 0] * 255).round().long(), 5).float()

    right = [sum(label == taken for label, taken in task) for task in tasks]
    found = accuracies(predict, [images_of(*torch.tensor(task).T) for task in tasks], "cpu")
    assert found == [100 * count / len(task) for count, task in zip(right, tasks, strict=True)]
    assert pooled_accuracy(found, [len(task) for task in tasks]) == 100 * sum(right) / sum(map(len, tasks))
