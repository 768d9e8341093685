"""How the runs of a driver follow each other, and what becomes of one that cannot be opened or concluded."""

from __future__ import annotations

import errno
import logging
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import cast

import pytest

from tausearch.execution import Run, StorageWatch
from tausearch.execution.interrupt import Interrupt
from tausearch.execution.queue import RunQueue, RunSource, SingleRun, _FirstTask
from tausearch.execution.recorder import LOST_SECONDS, URGENT_SECONDS
from tausearch.runs import RunDirectory, RunResult
from tausearch.studies import FixedSearcher, TrialListener
from tausearch.tracking import Deliveries
from tests.support.drivers.services import wait_until
from tests.support.runs.trials import make_trial, run_of, search_spec
from trainables.errors import InputError


class Recorder:
    """Stands in for the record and MLflow; what happens to runs is kept in the order in which it happens."""

    happened: list[str] = []
    begun: set[str] = set()  # names of runs

    def __init__(self, run: Run, deliveries: Deliveries, parent: Recorder | None = None) -> None:
        self.run, self.parent = run, parent
        self.listeners = [cast(TrialListener, f"record of {run.spec.name}")]
        self.announcer = SimpleNamespace(has_begun=run.spec.name in self.begun)

    def abandon(self) -> None:
        self.happened.append(f"abandon {self.run.spec.name}")

    def conclude(self, interrupt: Interrupt) -> RunResult:
        if self.run.spec.name == "bad":
            raise RuntimeError("no figure")
        behind = "" if self.parent is None else f" after {self.parent.run.spec.name}"
        self.happened.append(f"conclude {self.run.spec.name}{behind}")
        return cast(RunResult, SimpleNamespace(name=self.run.spec.name, interrupt=interrupt))


class Line:
    """A cell of runs, or of errors in the place of runs."""

    def __init__(self, *runs: Run | Exception) -> None:
        self.runs = list(runs)
        self.errors: list[str] = []
        self.results: list[str] = []
        self.let_go: list[str] = []  # the errors with which the locks of runs were released

    def open(self, locks: ExitStack) -> Run | None:
        if not self.runs:
            return None
        run = self.runs.pop(0)
        locks.callback(Recorder.happened.append, f"unlock {run if isinstance(run, Exception) else run.spec.name}")
        locks.push(lambda kind, error, trace: self.let_go.append(str(error)))
        if isinstance(run, Exception):
            raise run
        return run

    def on_error(self, error: Exception) -> None:
        self.errors.append(str(error))

    def on_concluded(self, result: RunResult) -> None:
        self.results.append(result.name)


def listeners_for(cell: RunSource, run: Run) -> list[TrialListener]:
    return [cast(TrialListener, f"display of {run.spec.name}")]


@pytest.fixture(autouse=True)
def happened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("tausearch.execution.queue.Recorder", Recorder)
    monkeypatch.setattr(Recorder, "happened", [])
    monkeypatch.setattr(Recorder, "begun", set())
    return Recorder.happened


@pytest.fixture
def watch(tmp_path: Path) -> StorageWatch:
    (tmp_path / "run.yaml").touch()
    return StorageWatch(RunDirectory(tmp_path))


@pytest.fixture
def said() -> list[str]:
    """The lines for a person."""
    return []


@pytest.fixture
def queue_of(watch: StorageWatch, said: list[str]) -> Iterator[Callable[..., RunQueue]]:
    made: list[RunQueue] = []

    def make(*cells: RunSource) -> RunQueue:
        made.append(RunQueue(cells, Interrupt(), watch, said.append, listeners_for))
        return made[-1]

    yield make
    for queue in made:
        queue.close()  # its thread would conclude runs while another test runs


def a_run(name: str, child: Run | None = None) -> Run:
    """A run that another one may belong to."""
    run = run_of(search_spec().model_copy(update={"name": name}), FixedSearcher([]))
    run.follow_up = lambda: child  # type: ignore[method-assign]
    return run


def test_cells_are_opened_in_order_and_those_without_a_run_are_passed_over(queue_of: Callable[..., RunQueue]) -> None:
    first, second = a_run("first"), a_run("second")
    queue = queue_of(Line(first), Line(), Line(second))
    queue.open_first()
    assert [queue.open_next(), queue.open_next(), queue.open_next()] == [first, second, None]
    *told, _ = first.listeners
    assert told == ["record of first", "display of first"]  # the record is told first


def test_the_lines_about_damaged_checkpoints_are_said(
    queue_of: Callable[..., RunQueue], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run("run")
    monkeypatch.setattr(
        "tausearch.execution.queue.prepare_checkpoints",
        lambda *asked: [str(asked == (run.directory, run.spec, run.trials))],
    )
    queue_of(Line(run)).open_next()
    assert said == ["True"]


def test_code_that_has_changed_is_said_once_for_a_run_and_not_for_its_reevaluation(
    queue_of: Callable[..., RunQueue], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    search = a_run("run", a_run("run.reevaluation"))
    monkeypatch.setattr("tausearch.execution.queue.note_code", lambda *asked: [str(asked[0] is search.spec)])
    queue = queue_of(Line(search))
    queue.open_next()
    queue.next_after(search)
    assert said == ["True"]


def test_what_belongs_to_a_run_comes_first_and_is_concluded_before_it(
    queue_of: Callable[..., RunQueue], happened: list[str]
) -> None:
    child, final = a_run("search.reevaluation"), a_run("final")
    search = a_run("search", child)
    cell = Line(search, final)
    queue = queue_of(cell)
    assert queue.open_next() is search
    assert queue.next_after(search) is child and len(child.listeners) == 3
    assert queue.next_after(child) is final and queue.next_after(final) is None
    queue.close()
    assert happened == [
        "conclude search.reevaluation after search",
        "conclude search",
        "unlock search",
        "conclude final",
        "unlock final",
    ]
    assert cell.results == ["search", "final"]  # a re-evaluation is no run of its own
    assert [each.name for each in queue.results] == ["search.reevaluation", "search", "final"]
    assert all(each.interrupt is queue.interrupt for each in queue.results)  # type: ignore[attr-defined]


def test_what_is_still_open_at_the_end_is_concluded_too_the_last_first(
    queue_of: Callable[..., RunQueue], happened: list[str]
) -> None:
    search = a_run("search", a_run("search.reevaluation"))
    queue = queue_of(Line(search), Line(a_run("other")))
    queue.open_next()
    queue.open_next()
    queue.next_after(search)
    queue.close()
    assert [line for line in happened if line.startswith("conclude")] == [
        "conclude search.reevaluation after search",
        "conclude other",
        "conclude search",
    ]
    queue.close()
    assert len(queue.results) == 3  # each once


def test_what_is_over_is_passed_over_with_its_reevaluation_up_to_the_first_run_that_is_not(
    queue_of: Callable[..., RunQueue], happened: list[str]
) -> None:
    def over(name: str, child: Run | None = None) -> Run:
        run = a_run(name, child)
        run.is_over = lambda trials: True  # type: ignore[method-assign]
        return run

    left, behind = a_run("left"), a_run("behind")
    queue = queue_of(Line(over("a", over("a.reevaluation")), over("a-final")), Line(over("b"), left), Line(behind))
    assert queue.conclude_finished()
    assert [queue.open_next(), queue.open_next()] == [left, behind]
    queue.close()
    ended = [line.split()[1] for line in happened if line.startswith("conclude")]
    assert ended == ["a.reevaluation", "a", "a-final", "b", "behind", "left"]
    assert not queue_of(Line(over("c"))).conclude_finished()


def test_a_thread_concludes_runs_as_they_end(queue_of: Callable[..., RunQueue], happened: list[str]) -> None:
    runs = [a_run("first"), a_run("second")]
    queue = queue_of(Line(*runs))
    queue.open_next()
    queue.next_after(runs[0])
    wait_until(lambda: "unlock first" in happened, 10, "the first")  # while the next is driven
    queue.next_after(runs[1])
    queue.close()
    assert happened == ["conclude first", "unlock first", "conclude second", "unlock second"]


def test_once_the_storage_has_failed_nothing_is_opened_and_open_runs_are_abandoned(
    queue_of: Callable[..., RunQueue], watch: StorageWatch, happened: list[str]
) -> None:
    run = a_run("run", a_run("child"))
    cell = Line(run, a_run("next"))
    queue = queue_of(cell, Line(a_run("other")))
    queue.open_next()
    watch.problem = "is full"
    assert queue.open_next() is None and queue.next_after(run) is None
    assert not queue.deliveries._stopping()
    queue.interrupt.stopped = True  # as the driver does then
    assert queue.deliveries._stopping()
    queue.close()
    assert happened == ["abandon run", "unlock run"] and queue.results == [] and cell.results == []


@pytest.mark.parametrize("error", [InputError("bad"), OSError("unreadable"), ValueError("of a sampler")])
def test_a_cell_that_cannot_be_opened_says_so_and_the_next_one_is(
    error: Exception, queue_of: Callable[..., RunQueue], happened: list[str]
) -> None:
    cell, run = Line(error), a_run("run")
    queue = queue_of(cell, Line(run))
    assert queue.open_next() is run
    assert cell.errors == [str(error)] and happened == [f"unlock {error}"]


def test_an_error_of_the_storage_is_no_fault_of_a_cell(
    queue_of: Callable[..., RunQueue], watch: StorageWatch, tmp_path: Path
) -> None:
    cell = Line(OSError(errno.EIO, "input/output error"))
    queue = queue_of(cell, Line(a_run("run")))
    (tmp_path / "run.yaml").unlink()
    assert queue.open_next() is None and cell.errors == []
    assert watch.problem is not None and "is gone" in watch.problem


def test_the_error_of_a_single_run_stops_the_driver(queue_of: Callable[..., RunQueue]) -> None:
    run = a_run("run")
    cell = SingleRun(run)
    queue = queue_of(cell)
    run.follow_up = lambda: (_ for _ in ()).throw(InputError("no"))  # type: ignore[method-assign]
    assert queue.open_next() is run and queue.open_next() is None
    cell.check()  # nothing was wrong
    assert queue.next_after(run) is None
    cell.on_error(InputError("later"))
    with pytest.raises(InputError, match="^no$"):
        cell.check()


def test_what_a_following_run_says_goes_where_the_driver_says_its_lines() -> None:
    run, said = a_run("run"), list[str]()
    run.next_run = lambda locks, say: say("next: begins")  # type: ignore[method-assign, func-returns-value]
    cell = SingleRun(run, said.append)
    assert cell.open(ExitStack()) is run and cell.open(ExitStack()) is None and said == ["next: begins"]


def test_nothing_follows_a_single_run_with_an_error() -> None:
    run = a_run("run")
    run.next_run = lambda locks, say: a_run("next")  # type: ignore[method-assign]
    cell = SingleRun(run)
    assert cell.open(ExitStack()) is run
    cell.on_error(InputError("no"))
    assert cell.open(ExitStack()) is None and cell.exhausted


@pytest.mark.parametrize(
    ("number", "problem", "seconds"),
    [
        (None, None, math.inf),
        (signal.SIGINT, None, math.inf),
        (signal.SIGTERM, None, URGENT_SECONDS),
        (signal.SIGTERM, "is full", LOST_SECONDS),
        (None, "is full", LOST_SECONDS),
    ],
)
def test_callbacks_have_the_time_that_is_left_and_end_at_the_next_signal(
    number: int | None,
    problem: str | None,
    seconds: float,
    queue_of: Callable[..., RunQueue],
    watch: StorageWatch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue, watch.problem = queue_of(), problem
    if number is not None:
        queue.interrupt.handle(number, None)
    found: list[tuple[float, bool, bool]] = []

    def close(longest: float, leave: Callable[[], bool]) -> None:
        before = leave()
        queue.interrupt.handled += 1
        found.append((longest, before, leave()))

    monkeypatch.setattr(queue.deliveries, "close", close)
    queue.close()
    assert found == [(seconds, False, True)]


def test_a_run_that_cannot_be_concluded_keeps_no_other_from_it(
    queue_of: Callable[..., RunQueue], happened: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = a_run("bad"), a_run("good")
    cell = Line(bad, good)
    with caplog.at_level(logging.ERROR, "tausearch.execution.queue"):
        queue = queue_of(cell)
        queue.open_next()
        queue.next_after(bad)
        queue.next_after(good)
        queue.close()
    assert cell.errors == ["no figure"] and cell.results == ["good"]
    assert happened == ["unlock bad", "conclude good", "unlock good"]
    assert "bad cannot be concluded" in caplog.text and "RuntimeError" in caplog.text


def test_runs_that_are_let_go_are_unlocked_and_concluded_only_if_they_have_begun(
    queue_of: Callable[..., RunQueue], happened: list[str]
) -> None:
    Recorder.begun.add("second")
    queue = queue_of(*(Line(a_run(name)) for name in ("first", "second", "third")))
    while queue.open_next():
        pass
    queue.release()
    assert happened == ["unlock third", "unlock first", "conclude second", "unlock second"]
    assert [result.name for result in queue.results] == ["second"]


@pytest.mark.parametrize("begun", [False, True])
def test_nothing_follows_a_run_that_an_error_ends_and_its_cell_is_told_once(
    begun: bool, queue_of: Callable[..., RunQueue], happened: list[str]
) -> None:
    Recorder.begun |= {"run"} if begun else set()
    run = a_run("run", child=a_run("child"))
    cell = Line(run)
    queue = queue_of(cell)
    queue.open_next()
    for why in ("the sampler failed", "again"):
        queue.stop_run(run, InputError(why))
    assert run.exhausted and queue.has_failed_run and cell.errors == ["the sampler failed"]
    assert queue.next_after(run) is None
    queue.close()
    assert happened == (["conclude run", "unlock run"] if begun else ["unlock run"])
    assert cell.let_go == ["None" if begun else "the sampler failed"]  # by which a new run is removed


def test_other_runs_are_followed_after_one_has_failed(queue_of: Callable[..., RunQueue]) -> None:
    failed, again = a_run("failed"), a_run("search.reevaluation")
    search = a_run("search", again)
    queue = queue_of(Line(failed), Line(search))
    queue.open_next()
    queue.stop_run(failed, InputError("the sampler failed"))
    assert queue.open_next() is search and queue.next_after(search) is again


@pytest.mark.parametrize("error", [None, ImportError("no matplotlib")])
def test_what_the_end_needs_is_imported_once_and_when_a_task_is_finished(
    error: Exception | None, queue_of: Callable[..., RunQueue], happened: list[str]
) -> None:
    def preload_imports() -> None:
        happened.append("import")
        if error is not None:
            raise error

    run = a_run("a")
    run.preload_imports = preload_imports  # type: ignore[method-assign]
    queue = queue_of(Line(run))
    queue.open_next()
    first_task = run.listeners[-1]
    first_task.trial_changed(make_trial(0, tasks=0))
    assert happened == []
    for number in (0, 1):
        first_task.trial_changed(make_trial(number, tasks=1))
    wait_until(lambda: happened == ["import"], 60, "the import")
    queue.next_after(run)
    queue.close()
    assert happened == ["import", "conclude a", "unlock a"]


def test_the_work_for_the_first_task_is_handed_out_with_the_first_task_and_once() -> None:
    handed: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
    listener = _FirstTask(handed, lambda: None)
    listener.trial_changed(make_trial(0, tasks=0))
    assert handed.empty()
    for number in (0, 1):
        listener.trial_changed(make_trial(number, tasks=1))
    assert handed.qsize() == 1
