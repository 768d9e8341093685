"""Changes are gathered before MLflow is called, and none waits for the end of its run or longer than a round."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tausearch.runs import Conclusion, SearchSpec, Storage, TrialSummary
from tausearch.tracking import MlflowRun, MlflowWriter, mlflow_writer as writer_module
from tests.support.drivers.services import wait_until
from tests.support.runs.trials import make_trial


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The number of each trial that MLflow is told of, with the tasks that it has then."""
    written = list[tuple[int, int]]()

    class Noted:
        def __init__(self, *_: Any) -> None:
            self.changes = 0

        def write(self, trial: TrialSummary) -> None:
            written.append((trial.number, trial.tasks_done))
            self.changes += 1

        def conclude(self, *_: Any) -> None:
            """Write nothing."""

    monkeypatch.setattr(writer_module, "MlflowRun", Noted)
    monkeypatch.setattr(writer_module, "LEISURE_SECONDS", 0.0)
    return written


@pytest.mark.parametrize("known", [0, 1])  # tasks, from an earlier driver
def test_the_first_round_waits_until_a_task_has_ended_in_this_driver(
    known: int,
    spec: SearchSpec,
    tmp_path: Path,
    written: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer_module, "LEISURE_SECONDS", 60.0)
    tracker = MlflowWriter(spec, Storage(tmp_path))
    for number in (0, 1):
        tracker.note(make_trial(number, tasks=known))
        time.sleep(0.1)
    assert written == []
    tracker.note(make_trial(1, tasks=known + 1))
    wait_until(lambda: len(written) == 2, 30, "the first round")
    assert written == [(0, known), (1, known + 1)]
    tracker.end("FINISHED", Conclusion())
    tracker.wait()


def test_a_run_that_ends_at_once_waits_for_no_task(
    spec: SearchSpec, tmp_path: Path, written: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "LEISURE_SECONDS", 60.0)
    ends: list[tuple[Any, ...]] = []
    monkeypatch.setattr(writer_module.MlflowRun, "conclude", lambda _, *end: ends.append(end))
    tracker, best = MlflowWriter(spec, Storage(tmp_path)), Conclusion(make_trial(0, value=70.0))
    tracker.note(make_trial(0, tasks=0))
    tracker.end("KILLED", best)
    tracker.wait(30)
    assert written == [(0, 0)] and tracker.error is None
    assert ends == [("KILLED", best)]


def test_a_slow_server_that_has_not_failed_has_more_patience(
    spec: SearchSpec, tmp_path: Path, written: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "PATIENCE_SECONDS", 0.05)
    note = writer_module.MlflowRun.write
    monkeypatch.setattr(writer_module.MlflowRun, "write", lambda run, trial: (time.sleep(0.3), note(run, trial)))
    tracker = MlflowWriter(spec, Storage(tmp_path))
    tracker.note(make_trial(0, tasks=0))
    tracker.end("FINISHED", Conclusion())
    tracker.wait()
    assert written == [(0, 0)] and tracker.error is None


def test_tasks_that_end_within_a_round_cost_one_call_together(
    spec: SearchSpec, tmp_path: Path, written: list[tuple[int, int]]
) -> None:
    tracker = MlflowWriter(spec, Storage(tmp_path))
    tracker.note(make_trial(0, tasks=0))
    wait_until(lambda: bool(written), 60, "the first round, which comes at once")
    for trial in (*(make_trial(0, tasks=tasks) for tasks in (1, 2)), make_trial(1, tasks=0), make_trial(1, tasks=1)):
        tracker.note(trial)
        time.sleep(0.05)  # enough for a call of its own
    tracker.end("FINISHED", Conclusion())
    tracker.wait()
    assert written == [(0, 0), (0, 2), (1, 1)] and tracker.error is None


def test_a_round_comes_while_the_run_goes_on(
    spec: SearchSpec, tmp_path: Path, written: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "GATHER_SECONDS", 0.02)
    tracker = MlflowWriter(spec, Storage(tmp_path))
    for tasks in (0, 1, 2):
        tracker.note(make_trial(0, tasks=tasks))
        wait_until(lambda tasks=tasks: (0, tasks) in written, 60, f"task {tasks} in MLflow")  # type: ignore[misc]
    tracker.end("FINISHED", Conclusion())
    tracker.wait()
    assert written == [(0, 0), (0, 1), (0, 2)]


def test_a_part_has_the_patience_that_the_run_it_belongs_to_needs(
    spec: SearchSpec, tmp_path: Path, written: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "LEISURE_SECONDS", 60.0)
    monkeypatch.setattr(writer_module, "PATIENCE_SECONDS", 0.05)
    open_run = writer_module.MlflowRun

    def open_slowly(*how: Any) -> MlflowRun:
        time.sleep(0.3)
        return open_run(*how)

    search = MlflowWriter(spec, Storage(tmp_path), open_run=open_slowly)
    part = MlflowWriter(spec, Storage(tmp_path), parent=search)  # nothing is new in the search itself
    part.note(make_trial(0, value=1.0))
    part.end("FINISHED", Conclusion())
    part.wait(30)
    assert search.is_known and part.error is None and [number for number, _ in written] == [0]
