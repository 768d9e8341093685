"""When a writer calls MLflow: changes are gathered, none waits for the end of its run, and a failure is tried again."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tausearch.runs import Conclusion, SearchSpec, Storage, TrialSummary
from tausearch.tracking import MlflowRun, MlflowWriter, mlflow_writer as writer_module
from tests.support.drivers.services import wait_until
from tests.support.runs.trials import make_trial
from tests.tausearch.tracking.test_mlflow_writer import end


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
    end(tracker)


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
    end(tracker)
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
    end(tracker)
    assert written == [(0, 0), (0, 2), (1, 1)] and tracker.error is None


def test_a_round_comes_while_the_run_goes_on(
    spec: SearchSpec, tmp_path: Path, written: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "GATHER_SECONDS", 0.02)
    tracker = MlflowWriter(spec, Storage(tmp_path))
    for tasks in (0, 1, 2):
        tracker.note(make_trial(0, tasks=tasks))
        wait_until(lambda tasks=tasks: (0, tasks) in written, 60, f"task {tasks} in MLflow")  # type: ignore[misc]
    end(tracker)
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


class TestTracker:
    @pytest.fixture
    def tracker(self, spec: SearchSpec, tmp_path: Path) -> MlflowWriter:
        made = MlflowWriter(spec, Storage(tmp_path))
        for number in range(4):
            made.trials.put(make_trial(number, tasks=1))
        return made

    def test_trials_are_written_by_number_and_refused_ones_last(self, tracker: MlflowWriter) -> None:
        written: list[int] = []

        def write(trial: TrialSummary) -> None:
            written.append(trial.number)
            run.changes += 1

        run: Any = SimpleNamespace(changes=0, write=write)
        tracker._changed |= {3, 0, 2, 1}
        tracker._failures.update({0: 2, 1: 1})
        tracker._write(run)
        assert written == [2, 3, 1, 0] and not tracker._changed

    def test_a_task_that_has_ended_begins_the_writing_whatever_begins_next(
        self, tracker: MlflowWriter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tracker, "_start", lambda: None)
        for trial, begins in ((make_trial(1, tasks=1), False), (make_trial(0, tasks=2), True), (make_trial(9), True)):
            tracker.note(trial)
            assert tracker._may_begin == begins

    def test_after_a_failure_all_trials_are_compared_again_and_once_more_at_the_end(
        self, spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tracker, written = MlflowWriter(spec, Storage(tmp_path)), list[int]()

        def write(trial: TrialSummary) -> None:
            written.append(trial.number)
            if written == [0, 1]:
                raise ConnectionError("gone")

        run = SimpleNamespace(changes=0, write=write, conclude=lambda *_: None)
        monkeypatch.setattr(writer_module, "MlflowRun", lambda *_: run)
        monkeypatch.setattr(tracker, "_pause", lambda: None)
        for number in (0, 1):
            tracker.trials.put(make_trial(number, tasks=1))
            tracker._noted.add(number)
        end(tracker)
        assert written == [0, 1, 0, 1, 0, 1] and tracker.error is None

    def test_what_changes_while_the_last_changes_are_written_is_written_too(
        self, spec: SearchSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tracker, written = MlflowWriter(spec, Storage(tmp_path)), list[int | str]()

        def note(number: int) -> None:
            tracker.trials.put(make_trial(number, tasks=1))
            tracker._noted.add(number)
            tracker._changed.add(number)

        def write(trial: TrialSummary) -> None:
            written.append(trial.number)
            if trial.number == 0:
                note(1)

        run = SimpleNamespace(changes=0, write=write, conclude=lambda *_: written.append("end"))
        monkeypatch.setattr(writer_module, "MlflowRun", lambda *_: run)
        monkeypatch.setattr(tracker, "_pause", lambda: None)
        note(0)
        end(tracker)
        assert written == [0, 1, "end"]

    def test_nothing_but_a_change_or_a_server_that_is_back_is_progress(
        self, tracker: MlflowWriter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(trial: TrialSummary) -> None:
            raise RuntimeError("refused")

        run: Any = SimpleNamespace(changes=0, write=refuse)
        monkeypatch.setattr(writer_module, "MlflowRun", lambda *_: run)
        tracker._last_progress = 0.0
        tracker._connect()
        assert tracker._last_progress > 0
        tracker._last_progress = 0.0
        tracker._connect()
        tracker._changed.add(0)
        with pytest.raises(RuntimeError):
            tracker._write(run)
        assert tracker._last_progress == 0

    def test_one_that_was_given_up_keeps_its_reason(
        self, tracker: MlflowWriter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writer_module, "PATIENCE_SECONDS", 0.0)
        monkeypatch.setattr(tracker, "_start", lambda: None)
        tracker._thread = threading.Thread(target=threading.Event().wait, args=(0.1,))
        tracker._thread.start()
        tracker.error = "no server answers there"
        tracker.wait()
        tracker._has_all()
        assert tracker._given_up and tracker.error == "no server answers there"

    def test_a_part_wakes_the_run_that_it_belongs_to_and_fails_with_it(self, spec: SearchSpec, tmp_path: Path) -> None:
        woken: list[bool] = []
        wake = threading.Condition()
        search: Any = SimpleNamespace(is_known=False, error="HTTP 500", _start=lambda: woken.append(True), _wake=wake)
        part = MlflowWriter(spec, Storage(tmp_path), "http://a:1", parent=search)
        assert part.uri == "http://a:1"
        with pytest.raises(ConnectionError, match="^HTTP 500$"):
            part._connect()
        part._thread = threading.Thread(target=list)
        part._start()
        assert woken == [True]

    def test_an_error_is_logged_once_for_all_attempts(
        self, tracker: MlflowWriter, caplog: pytest.LogCaptureFixture
    ) -> None:
        for message in ("first", "first", "second"):
            tracker._note(RuntimeError(message))
        assert len(caplog.records) == 2 and tracker.error == "second"

    def test_a_silent_server_is_waited_for_longer_than_a_failing_one(
        self, tracker: MlflowWriter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writer_module, "PATIENCE_SECONDS", 0.01)
        concluded: list[str] = []
        slow = SimpleNamespace(
            changes=0, write=lambda trial: time.sleep(0.2), conclude=lambda status, _: concluded.append(status)
        )
        monkeypatch.setattr(writer_module, "MlflowRun", lambda *_: slow)
        tracker.note(make_trial(0))
        end(tracker)
        assert concluded == ["FINISHED"] and tracker.error is None

    def test_the_end_of_a_run_waits_no_longer_than_it_may(
        self, tracker: MlflowWriter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked, answer = threading.Event(), threading.Event()

        def hang(*_: object) -> Any:
            asked.set()
            answer.wait(60)
            raise ConnectionError("too late")

        monkeypatch.setattr(writer_module, "MlflowRun", hang)
        began = time.monotonic()
        tracker.end("FINISHED", Conclusion())
        tracker.wait(longest=0.05)
        assert tracker.error == "no answer"
        assert asked.is_set() and time.monotonic() - began < 30
        answer.set()
        tracker._thread.join(60)
