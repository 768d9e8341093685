"""What searches and final runs tell their trials about where things lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tausearch import final_run, search_run
from tausearch.best import choose
from tausearch.files import Storage
from tausearch.final_run import train
from tausearch.planning import create
from tausearch.record import Record
from tausearch.search_run import run_search
from tausearch.spec import RunSpec
from tests.tausearch.conftest import make_trial
from trainables.config import TrialConfig
from trainables.state import State, write_state

MakeConfig = Callable[[int, dict[str, Any]], TrialConfig]


class Planned(Exception):
    """Instead of a run."""


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[MakeConfig]:
    """How a run makes the configs of its trials; nothing is run."""
    found: list[MakeConfig] = []

    def drive(spec: Any, storage: Any, directory: Any, source: Any, make_config: MakeConfig, *_: Any, **__: Any) -> Any:
        found.append(make_config)
        raise Planned

    monkeypatch.setattr(search_run, "drive", drive)
    monkeypatch.setattr(final_run, "drive", drive)
    return found


def test_of_a_search(spec: RunSpec, tmp_path: Path, captured: list[MakeConfig]) -> None:
    storage = Storage(tmp_path)
    spec, directory = create(spec, storage)
    Record(directory.record).write(make_trial(0, tasks=1))
    checkpoint = directory.ray / "attempt-1" / "trial-00000" / "checkpoint_000000"
    checkpoint.mkdir(parents=True)
    write_state(checkpoint, State(values={"task": 1}))
    with pytest.raises(Planned):
        run_search(spec, storage, directory)
    first, second = (captured[0](number, {"alpha": 1.0, "lr": 0.1}) for number in range(2))
    assert (first.resume_from, second.resume_from) == (str(checkpoint), None)
    assert first.kept == str(directory.path / "state" / "trial-00000")
    assert second.kept == str(directory.path / "state" / "trial-00001")
    assert (first.store, first.artifacts) == (str(storage.store), None)


def test_of_a_final_run(
    spec: RunSpec, tmp_path: Path, captured: list[MakeConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(tmp_path)
    final = spec.model_copy(update={"name": "f", "purpose": "final", "seeds": (5, 6), "trials": 2})
    monkeypatch.setattr(final_run, "_plan", lambda *_: (final, storage))
    best = choose(spec, make_trial(0, value=80.0), competitors=1, mlflow_run_id=None)
    with pytest.raises(Planned):
        train(best, seeds=(5, 6), name="f", storage=tmp_path)
    config = captured[0](1, {})
    directory = storage.run("f")
    assert (config.trial, config.seed) == (1, 6)
    assert config.kept == str(directory.kept(1)) and config.artifacts == str(directory.artifacts / "seed_6")
    assert replace(config, kept=None, artifacts=None) == spec.model_copy(update={"purpose": "final"}).trial(
        1, {}, 6, store=storage.store, artifacts=None
    )
