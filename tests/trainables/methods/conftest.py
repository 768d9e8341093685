"""Trials of methods on the small digits; those that are recorded are shared by all tests of a process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.methods.recorded import Recorded, record
from tests.support.methods.small_digits import small_digits
from trainables.backbones import Backbone
from trainables.sequence import IncrementalSequence


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pre-consolidation store of all trials."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="session")
def make(store: Path) -> partial[IncrementalSequence]:
    """Makes a trial of a method with some hyperparameters.

    With seed 1 SEED chooses the same expert under every instruction set; with seed 0 it ends at 58, 71 or 96 %.
    """
    return partial(IncrementalSequence, small_digits(), backbone=Backbone(), store=store, seed=1)


@pytest.fixture(scope="session")
def recorded(
    make: partial[IncrementalSequence], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, dict[str, Any]], Recorded]:
    """Returns the recorded trial of a method with some hyperparameters; each is run once. No test may change it."""
    done: dict[str, Recorded] = {}

    def recorded(method: str, hyperparameters: dict[str, Any]) -> Recorded:
        key = f"{method} {sorted(hyperparameters.items())}"
        if key not in done:
            folder = tmp_path_factory.mktemp(method)
            (folder / "artifacts").mkdir()
            done[key] = record(make(method, hyperparameters, artifacts=folder / "artifacts"), folder)
        return done[key]

    return recorded
