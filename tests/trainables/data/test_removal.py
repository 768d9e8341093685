"""A benchmark without some classes: what is left of its tasks, and the images and labels of what is left."""

from __future__ import annotations

import torch

from trainables.data import Removal, build_benchmark, get_source, without
from trainables.data.images import ImageSet

TASKS = (range(2), range(2, 4), range(4, 7), range(7, 9))
REMOVAL = Removal(TASKS, frozenset({3, 4, 5, 6}))  # a half of task 2, and all of task 3


def test_a_vector_goes_whole_and_the_others_share_the_sum_of_one() -> None:
    assert (REMOVAL.rows, REMOVAL.tasks, REMOVAL.touched, REMOVAL.partial) == ([0, 1, 2, 7, 8], [1, 2, 4], [2, 3], [2])
    assert REMOVAL.weights == (0.5, 0.0, 0.5) and REMOVAL.single == [2]
    assert [REMOVAL.left_of(task) for task in (1, 2, 3, 4)] == [[0, 1], [2], [], [7, 8]]
    assert [REMOVAL.renumbered(task) for task in REMOVAL.tasks] == [range(2), range(2, 3), range(3, 5)]


def test_the_first_task_with_forgotten_images_has_read_them_too() -> None:
    assert REMOVAL.learned_from(alone=False) == [2, 4]
    assert REMOVAL.learned_from(alone=True) == [1, 2, 4]  # task 2 again without a class, so all with another classifier
    assert Removal(TASKS, frozenset({4, 5, 6})).learned_from(alone=True) == []


def test_images_move_with_their_classes_and_a_changed_task_loses_its_name() -> None:
    whole = build_benchmark(get_source("digits?task=low=0,1&task=mid=2,3&task=4,5,6&task=high=7,8"), "search")
    left = without(whole, REMOVAL)
    assert left.spec.class_names == ("0", "1", "2", "7", "8") and left.spec.num_tasks == 3
    assert [(task.name, task.classes) for task in left.spec.named_tasks] == [
        ("low", ("0", "1")),
        (None, ("2",)),
        ("high", ("7", "8")),
    ]
    assert [(task.index, task.classes) for task in left.tasks] == [(1, range(2)), (2, range(2, 3)), (3, range(3, 5))]
    for new, old in enumerate((1, 2, 4)):
        task, before = left.tasks[new], whole.tasks[old - 1]
        for now, then in (
            (task.train, before.train),
            (task.unaugmented, before.unaugmented),
            (left.evaluation[new], whole.evaluation[old - 1]),
        ):
            assert now.transform is then.transform
            for label in task.classes:
                assert torch.equal(images(now, label), images(then, REMOVAL.rows[label]))


def images(of: ImageSet, label: int) -> torch.Tensor:
    assert isinstance(of.images, torch.Tensor)
    found = of.images[of.labels == label]
    assert len(found)
    return found
