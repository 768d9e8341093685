"""Trials of methods on the small digits; those that are recorded are shared by all tests of a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tausearch.testing.recording import Recorded, record
from tests.support.methods.small_digits import seed_of, small_digits
from tests.support.tiny_vit import float64 as in_float64
from trainables.backbones import Backbone
from trainables.methods import get_method
from trainables.sequence import IncrementalSequence


@pytest.fixture
def float64() -> Iterator[None]:
    """Everything is float64, but for what was made by code in float32."""
    with in_float64():
        yield


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pre-consolidation cache of all trials."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def make(cache: Path) -> Callable[..., IncrementalSequence]:
    """Makes a trial of a method with some hyperparameters."""

    def make(method: str, hyperparameters: dict[str, Any], **options: Any) -> IncrementalSequence:
        given = {"backbone": Backbone(), "cache": cache, "seed": seed_of(method), **options}
        return IncrementalSequence(small_digits(), method, hyperparameters, **given)

    return make


@pytest.fixture(scope="session")
def recorded(
    make: Callable[..., IncrementalSequence], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, dict[str, Any]], Recorded]:
    """Returns the recorded trial of a method with some hyperparameters; each is run once. No test may change it."""
    done: dict[str, Recorded] = {}

    def recorded(method: str, hyperparameters: dict[str, Any]) -> Recorded:
        key = f"{method} {sorted(hyperparameters.items())}"
        if key not in done:
            folder = tmp_path_factory.mktemp(method)
            (folder / "artifacts").mkdir()
            saved = get_method(method).capabilities.curvature
            done[key] = record(
                make(method, hyperparameters, artifacts=folder / "artifacts", save_curvature=saved), folder
            )
        return done[key]

    return recorded
