"""A trial of a method, recorded after every task, so that many tests can look at one training."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tausearch.testing.reachable_objects import images_of, reachable
from trainables.data import ImageSet, Task
from trainables.metrics import repeatable
from trainables.sequence import IncrementalSequence
from trainables.state import State, check_state, read_state, write_state


class AfterTask(NamedTuple):
    """The trial after one task."""

    row: dict[str, Any]  # the metrics row, without times
    logits: Tensor  # logits of the evaluation images of the first task
    constant: dict[str, Tensor]  # a copy of the tensors that the state calls constant
    artifacts: int  # the number of files with artifacts


class Recorded(NamedTuple):
    """A finished trial. Tests share it and must not change it."""

    sequence: IncrementalSequence  # the finished sequence
    tasks: list[AfterTask]  # the record of every task
    reached: list[set[bytes]]  # for every task, the images that the method could reach just before the task ended
    folder: Path  # folder with `artifacts`, the checkpoints `1`, `2`, ... and their constants in `blobs`
    draws: bool  # whether the trial drew from the global generator

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The metrics rows."""
        return [task.row for task in self.tasks]

    def state(self, tasks: int) -> State:
        """Return the state after so many tasks, mapped from its checkpoint."""
        return read_state(self.folder / str(tasks), self.folder / "blobs")


def shown(images: ImageSet) -> Tensor:
    """All images of a set as a method is shown them."""
    return next(images.batches(len(images), None, shuffle=False)).x


def record(sequence: IncrementalSequence, folder: Path) -> Recorded:
    """Run all tasks; a checkpoint is written after each, and artifacts to `folder / "artifacts"` if asked for."""
    before, reached, x = torch.get_rng_state(), watch(sequence), shown(sequence.benchmark.evaluation[0])
    tasks = []
    while not sequence.finished:
        row = repeatable(sequence.run_next_task())
        state, checkpoint = sequence.state(), folder / str(sequence.tasks_done)
        checkpoint.mkdir()
        write_state(checkpoint, state, folder / "blobs")
        assert check_state(checkpoint, folder / "blobs")
        constant = {name: value.clone() for name, value in state.constant.items()}
        files = sum(path.is_file() for path in (folder / "artifacts").rglob("*"))
        tasks.append(AfterTask(row, sequence.method.predict(x), constant, files))
    return Recorded(sequence, tasks, reached, folder, not torch.equal(before, torch.get_rng_state()))


def watch(sequence: IncrementalSequence) -> list[set[bytes]]:
    """Return a list that gets, at the end of each task, all images that its method can reach.

    They are looked for in the task, the method and the pre-consolidation. The hook holds nothing else: it is reached
    from the method itself.
    """
    reached: list[set[bytes]] = []
    method, before, end = sequence.method, sequence.preparer, sequence.method.end_task

    def end_task(task: Task) -> None:
        reached.append(set(images_of(reachable([task, method, before]))))
        end(task)

    method.end_task = end_task  # type: ignore[method-assign]
    return reached
