"""Splits and tasks of any data: nothing lost, nothing twice, and every class by itself."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from tausearch.testing.reachable_objects import images_of
from trainables.backbones import InputSpec
from trainables.data import build_benchmark
from trainables.data.benchmark import BenchmarkSource
from trainables.data.splits import VALIDATION_SHARE, stratified_split, task_sizes
from trainables.data.transforms.recipes import small_transforms

READS = InputSpec(1, 32, (0.5,), (0.5,))
seeds = st.integers(0, 2**32 - 1)
labels_ = st.lists(st.integers(0, 9), max_size=80).map(lambda values: torch.tensor(values, dtype=torch.int64))


@given(st.integers(-3, 400), st.integers(-3, 400))
def test_task_sizes(num_classes: int, num_tasks: int) -> None:
    if not 1 <= num_tasks <= num_classes:
        with pytest.raises(ValueError, match="number of tasks"):
            task_sizes(num_classes, num_tasks)
        return
    sizes = task_sizes(num_classes, num_tasks)
    assert len(sizes) == num_tasks and sum(sizes) == num_classes
    assert sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] == (num_classes % num_tasks > 0)


@given(labels_, st.floats(0, 1), seeds)
def test_a_split_takes_its_share_of_every_class(labels: Tensor, share: float, seed: int) -> None:
    kept, held_out = (rows.tolist() for rows in stratified_split(labels, share, seed))
    assert sorted(kept + held_out) == list(range(len(labels)))
    assert kept == sorted(kept) and held_out == sorted(held_out)
    for label in labels.unique().tolist():
        count = int((labels == label).sum())
        assert sum(int(labels[row]) == label for row in held_out) == math.ceil(share * count)


@given(labels_, labels_, seeds)
def test_a_class_is_split_alike_whatever_lies_beside_it(labels: Tensor, others: Tensor, seed: int) -> None:
    alone = stratified_split(labels, VALIDATION_SHARE, seed)[1]
    together = stratified_split(torch.cat([labels, others + 10]), VALIDATION_SHARE, seed)[1]
    assert together[together < len(labels)].tolist() == alone.tolist()


@settings(max_examples=40)
@given(
    counts=st.lists(st.tuples(st.integers(3, 12), st.integers(0, 5)), min_size=1, max_size=7),
    tasks=st.integers(1, 7),
    seed=seeds,
    order=st.randoms(use_true_random=False),
)
def test_every_image_is_in_the_one_place_where_it_belongs(
    counts: list[tuple[int, int]], tasks: int, seed: int, order: object
) -> None:
    parts = {"train": [train for train, _ in counts], "test": [1 + test for _, test in counts]}
    labels = {part: shuffled(numbers, order) for part, numbers in parts.items()}

    def load(part: str) -> tuple[Tensor, Tensor]:
        """Every image says its part, its row and its class."""
        images = torch.zeros(len(labels[part]), 1, 2, 2, dtype=torch.uint8)
        images[:, 0, 0, 0], images[:, 0, 0, 1] = torch.arange(len(images)), labels[part]
        images[:, 0, 1, 0] = part == "test"
        return images, labels[part]

    names, num_tasks = tuple(map(str, range(len(counts)))), min(tasks, len(counts))
    source = BenchmarkSource("any", names, num_tasks, 1, 4, "glyph_vit", load=load, transforms=small_transforms)
    for purpose, parts_used in (("search", ("train",)), ("final", ("train", "test"))):
        built = build_benchmark(source, purpose, seed, READS)  # type: ignore[arg-type]
        sets = [*(task.train for task in built.tasks), *built.evaluation]
        found = [image for each in sets for image in images_of([each.images])]
        assert sorted(found) == sorted(image for part in parts_used for image in images_of([load(part)[0]]))
        assert [task.index for task in built.tasks] == list(range(1, num_tasks + 1))
        for task, evaluation in zip(built.tasks, built.evaluation, strict=True):
            for each in (task.train, evaluation):
                assert each.images[:, 0, 0, 1].tolist() == each.labels.tolist()  # type: ignore[index]
                assert set(each.labels.tolist()) == set(task.classes)
        assert [c for task in built.tasks for c in task.classes] == list(range(len(names)))


def shuffled(counts: list[int], order: object) -> Tensor:
    """So many labels of each class, in any order."""
    labels = [label for label, count in enumerate(counts) for _ in range(count)]
    order.shuffle(labels)  # type: ignore[attr-defined]
    return torch.tensor(labels, dtype=torch.int64)
