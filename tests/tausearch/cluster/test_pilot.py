"""The pilot runs until the memory that a method takes has peaked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.cluster.pilot import run_to_peak
from trainables.methods import Capabilities


class Counted:
    """A sequence that counts its tasks."""

    def __init__(self, tasks: int, to_peak: int) -> None:
        self.entry = SimpleNamespace(capabilities=Capabilities(tasks_to_peak=to_peak))
        self.left, self.done = tasks, 0

    @property
    def finished(self) -> bool:
        return self.left == 0

    def run_next_task(self) -> None:
        assert self.left
        self.left, self.done = self.left - 1, self.done + 1


@pytest.mark.parametrize(("tasks", "to_peak", "runs"), [(5, 1, 1), (5, 3, 3), (2, 3, 2)])
def test_as_many_tasks_as_the_method_declares(tasks: int, to_peak: int, runs: int) -> None:
    sequence: Any = Counted(tasks, to_peak)
    run_to_peak(sequence)
    assert sequence.done == runs
