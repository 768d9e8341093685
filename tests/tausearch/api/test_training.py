"""A final run that was stopped: it has no results yet, and goes on with the seeds that have not ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tausearch.api import final_runs as training
from tausearch.api import resume, sync_run
from tausearch.execution import Run
from tausearch.runs import Record, RunResult, Storage, read_spec
from tests.support.runs.final_runs import make_final_run
from trainables.errors import InputError


@pytest.fixture
def stopped(tmp_path: Path) -> Storage:
    """A final run of three seeds: the first finished, the second failed, the third was running when all ended."""
    storage = Storage(tmp_path)
    make_final_run(storage, "f", [50.0, None, 70.0], benchmark="digits")
    directory = storage.run("f")
    directory.results_file.unlink()
    record = Record(directory.record, names=read_spec(directory).metrics)
    running = record.trials()[2]
    running.status, running.value, running.rows = "running", None, []
    record.write(running)
    return storage


def test_it_has_no_results_yet(stopped: Storage) -> None:
    assert sync_run(stopped, stopped.run("f")).trials == 3
    assert not stopped.run("f").results_file.exists()


def test_it_goes_on_with_the_seeds_that_have_not_ended(stopped: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, driven = stopped.run("f"), []

    def drive(run: Run, **options: Any) -> RunResult:
        driven.append((run, options))
        trials = list(run.trials)
        return RunResult("f", directory.path, trials, None, False, directory.log_file, "sqlite://", None)

    monkeypatch.setattr(training, "drive", drive)
    options: dict[str, Any] = {"address": "a:1", "time_budget": 60.0, "progress_to": "stderr"}
    result = training.run_training(training.FinalRun(read_spec(directory), stopped, directory), **options)
    ((run, given),) = driven
    assert given == options
    assert [trial.status for trial in run.trials] == ["complete", "failed", "running"]
    assert [run.searcher.next(), run.searcher.next()] == [(2, {}), None]
    assert run.config(2, {}).seed == 2
    assert result.results_file is None and result.summary["test/final_accuracy"]["seeds"] == 1


def test_its_seeds_are_fixed(stopped: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tausearch.api.continuation._require_unchanged", lambda spec: None)
    with pytest.raises(
        InputError, match="run 'f' is a final run, whose seeds are fixed; only searches can be extended"
    ):
        resume("f", trials=5, storage=stopped.root)
