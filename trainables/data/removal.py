"""A benchmark without some of its classes: what is left once a composition must not answer them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from trainables.data.benchmark import Benchmark, Task
from trainables.data.images import ImageSet, of_classes


@dataclass(frozen=True)
class Removal:
    """Classes to take out of a benchmark, and what is left of its tasks.

    A task vector is learned from all classes of its task, so the vector of a task that holds one of them goes whole.
    Tasks are numbered from 1, as before the removal.
    """

    task_classes: tuple[range, ...]  # the classes of each task before the removal, positions in the class order
    forgotten: frozenset[int]  # the classes to take out

    @cached_property
    def rows(self) -> list[int]:
        """The classes that are left, positions in the old class order."""
        return [c for classes in self.task_classes for c in classes if c not in self.forgotten]

    @cached_property
    def tasks(self) -> list[int]:
        """The tasks with a class left."""
        return [task for task, classes in self._numbered if not self.forgotten.issuperset(classes)]

    @cached_property
    def touched(self) -> list[int]:
        """The tasks with a class to take out, whose vectors go."""
        return [task for task, classes in self._numbered if self.forgotten.intersection(classes)]

    @property
    def partial(self) -> list[int]:
        """The tasks whose vector goes, and some of whose classes are left."""
        return [task for task in self.touched if task in self.tasks]

    @property
    def weights(self) -> tuple[float, ...]:
        """Weights of the vectors of the tasks that are left: equal, with the sum 1; 0 where the vector has gone."""
        whole = len(self.task_classes) - len(self.touched)
        return tuple(0.0 if task in self.touched else 1 / whole for task in self.tasks)

    @property
    def single(self) -> list[int]:
        """The tasks that are left with one class, on which nothing can be trained."""
        return [task for task in self.tasks if len(self.left_of(task)) == 1]

    def learned_from(self, *, alone: bool) -> list[int]:
        """Return the tasks that are left, and whose learning has read forgotten images or what came of them.

        Those are the tasks with such images, and every task after them. `alone` says that each task is learned by
        itself, with a classifier of all classes: then only the other classes of a task with such images have read
        them, but to learn these again without a class, all tasks need a classifier without it.
        """
        if alone:
            return self.tasks if self.partial else []
        return [task for task in self.tasks if task >= self.touched[0]]

    def left_of(self, task: int) -> list[int]:
        """Return the classes that are left of a task, positions in the old class order."""
        return [c for c in self.task_classes[task - 1] if c not in self.forgotten]

    def renumbered(self, task: int) -> range:
        """Return the classes that are left of a task, positions in the new class order."""
        left = self.left_of(task)
        first = self.rows.index(left[0])
        return range(first, first + len(left))

    @property
    def _numbered(self) -> list[tuple[int, range]]:
        return list(enumerate(self.task_classes, start=1))


def without(benchmark: Benchmark, removal: Removal) -> Benchmark:
    """Return a benchmark without some classes and their images; tasks without a class left are gone."""
    names = tuple(benchmark.spec.class_names[c] for c in removal.rows)
    sizes = tuple(len(removal.left_of(task)) for task in removal.tasks)
    titles = tuple(
        None if task in removal.touched else benchmark.spec.named_tasks[task - 1].name for task in removal.tasks
    )
    spec = replace(benchmark.spec, class_names=names, num_tasks=len(sizes), sizes=sizes, task_names=titles)
    tasks, evaluation = [], []
    for index, (number, classes) in enumerate(zip(removal.tasks, spec.task_classes, strict=True), start=1):
        task, old = benchmark.tasks[number - 1], removal.left_of(number)
        train, plain = (_relabelled(images, old, classes) for images in (task.train, task.unaugmented))
        tasks.append(Task(index, classes, train, plain))
        evaluation.append(_relabelled(benchmark.evaluation[number - 1], old, classes))
    return replace(benchmark, spec=spec, tasks=tuple(tasks), evaluation=tuple(evaluation))


def _relabelled(images: ImageSet, old: Sequence[int], new: range) -> ImageSet:
    """Return the images of the classes `old` (ascending) under the labels `new`."""
    chosen = of_classes(images, old)
    return replace(chosen, labels=torch.searchsorted(torch.tensor(old), chosen.labels) + new.start)
