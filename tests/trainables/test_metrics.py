"""Metrics worked out by hand and by loops as one would write them on a board; accuracy by counting."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from trainables.data import ImageSet
from trainables.data.transforms.normalisation import Normalise
from trainables.evaluation import EVALUATION_BATCH, accuracies, accuracies_without, accuracy
from trainables.metrics import (
    TEST,
    VALIDATION,
    average_accuracy,
    average_incremental_accuracy,
    forgetting,
    is_metric,
    is_seconds,
    names_of,
    pooled_accuracy,
    repeatable,
)

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
    means = (sum(drops) / len(drops) if drops else 0.0, float(torch.tensor(matrix[-1], dtype=torch.float64).mean()))
    assert (forgetting(matrix), average_accuracy(matrix[-1])) == pytest.approx(means, abs=1e-9)  # they are rounded


def test_average_incremental_accuracy_counts_each_task_once_whatever_the_number_of_tasks_seen() -> None:
    matrix = [[90.0], [80.0, 40.0], [70.0, 10.0, 40.0]]
    assert (
        average_incremental_accuracy(matrix) == 63.333333333
    )  # (90 + 60 + 40) / 3, and not the mean of six accuracies


def test_equal_means_of_different_accuracies_are_equal_numbers() -> None:
    one, other = [0.1, 0.2, 0.3], [0.3, 0.2, 0.1]  # floats whose sums differ
    assert sum(one) != sum(other) and average_accuracy(one) == average_accuracy(other)
    drops = [forgetting([row[:1], row[:2], row, [0.0] * 4]) for row in (one, other)]
    assert drops[0] == drops[1] == 0.2


def test_a_joint_method_forgets_nothing() -> None:
    assert forgetting([[50.0, 40.0]]) == 0.0  # one row, several tasks
    assert f"{forgetting([[50.0], [50.0 + 1e-12, 0.0]]):.2f}" == "0.00", "of a rounded -1e-12, too"


def test_pooled_accuracy_counts_images_and_not_tasks() -> None:
    assert pooled_accuracy([50.0, 100.0], [30, 10]) == 62.5
    assert pooled_accuracy([100 / 11, 100.0], [11, 0]) == 100 / 11  # one image, though 11 * (100 / 11) / 100 is more
    with pytest.raises(ValueError):
        pooled_accuracy([50.0], [30, 10])


def test_the_trials_own_metrics_and_their_reproducible_part() -> None:
    same = ["val/average_accuracy", "test/forgetting", "train/loss"]
    circumstances = ["seconds/training", "seconds/waiting", "memory/peak_gpu_bytes", "cache/hit"]
    row = dict.fromkeys([*same, *circumstances, "time_total_s"], 1.0)
    assert list(filter(is_metric, row)) == [*same, *circumstances]
    assert list(filter(is_seconds, row)) == ["seconds/training"]  # which contains the waiting
    assert list(repeatable(row)) == [*same, "time_total_s"]


def test_a_search_measures_on_validation_images_and_a_final_run_on_test_images() -> None:
    assert names_of("search") is VALIDATION and names_of("final") is TEST
    assert (VALIDATION.final_accuracy, TEST.accuracy(2)) == ("val/final_accuracy", "test/accuracy/task_2")


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


def test_a_class_that_is_left_out_is_never_answered_though_all_other_logits_are_negative() -> None:
    labels = torch.tensor([0, 1, 2, 2])
    logits = torch.tensor([[-1.0, -2.0, -3.0], *[[-3.0, -1.0, -2.0]] * 3])  # class 1 is the best of three
    whole, without = accuracies_without(lambda x: logits, images_of(labels, labels), range(1, 2), "cpu")
    assert (whole, without) == (50.0, 75.0)
