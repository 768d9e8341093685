"""What the garbage collector looks at while a driver runs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from tausearch.execution import Driver
from tausearch.execution.driver import _gc_frozen
from tausearch.presentation import ProgressDisplay
from tausearch.runs import Resources, RunDirectory, TrialTable
from tests.support.runs.trials import search_spec


class Node:
    """Refers to itself, so that only the garbage collector ends it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def unfrozen() -> Iterator[None]:
    gc.unfreeze()  # a test of this process may have imported `tausearch.cluster.preload`
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("unfrozen")
def test_what_lived_before_is_looked_at_again_once_the_driver_has_ended(tmp_path: Path) -> None:
    old, young = Node(), None
    old_end = weakref.ref(old)
    driver = Driver(home=RunDirectory(tmp_path), resources=[Resources()], read=[], resume_command="")
    with driver.session(lambda screen: ProgressDisplay(search_spec(), TrialTable(), screen)):
        young = Node()
        young_end = weakref.ref(young)
        del old, young
        gc.collect()
        assert old_end() is not None and young_end() is None
    gc.collect()
    assert old_end() is None


@pytest.mark.usefixtures("unfrozen")
def test_what_the_caller_has_told_the_collector_to_leave_alone_stays_so() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    with _gc_frozen():
        pass
    assert 0 < gc.get_freeze_count() <= before
