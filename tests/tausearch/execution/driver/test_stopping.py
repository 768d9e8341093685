"""What stops a driver: signals, the time budget, errors."""

from __future__ import annotations

import errno
import io
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import pytest

from tausearch.execution import Dispatcher, DriveOptions, Run
from tausearch.execution.driver import Driver, _why_stopping, drive
from tausearch.execution.interrupt import Interrupt
from tausearch.runs import Conclusion, Record, StorageError, TrialSummary, note_stopped
from tests.support.drivers.services import wait_until
from tests.support.runs.trials import make_trial
from tests.tausearch.execution.driver.world import MlflowWriter, World, finish_one, on_cluster, tell, then
from trainables.errors import InputError


@pytest.mark.parametrize(
    ("error", "number"), [(KeyboardInterrupt(), signal.SIGINT), (SystemExit(1), signal.SIGTERM)], ids=["int", "term"]
)
def test_a_signal_that_ray_takes_stops_it_in_order(error: BaseException, number: int, run: Run, world: World) -> None:
    world.tune = then(finish_one, error)
    result = drive(run)
    assert result.signal == number and [trial.number for trial in result.trials] == [0]
    assert run.directory.stopped_file.read_text() == "interrupted\n"
    assert MlflowWriter.closed == [("KILLED", 8.0 if number == signal.SIGTERM else float("inf"))]


def test_an_output_that_nobody_reads_any_more_stops_it_in_order(
    run: Run, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def output_to(log_file: Path, screen_is: str, closed: Callable[[], None]) -> Iterator[TextIO]:
        def lose_the_reader(dispatcher: Dispatcher) -> None:
            finish_one(dispatcher)
            closed()
            world.on_step()

        world.tune = lose_the_reader
        yield io.StringIO()

    monkeypatch.setattr("tausearch.execution.driver.output_to", output_to)
    assert drive(run).signal == signal.SIGPIPE and world.told == [signal.SIGUSR1]
    assert run.directory.stopped_file.read_text() == "closed output\n"


def test_a_trial_under_way_waits_in_the_result_of_a_run_that_is_stopped(run: Run, world: World) -> None:
    def begin(dispatcher: Dispatcher) -> None:
        assert dispatcher.next() is not None
        tell(run, make_trial(0, tasks=1))

    world.tune = then(begin, KeyboardInterrupt())
    assert [trial.status for trial in drive(run).trials] == ["pending"]


@pytest.mark.parametrize("cause", ["signal", "time budget"])
def test_a_run_that_ends_while_it_is_stopped_was_not_stopped(
    cause: str, run: Run, world: World, interrupt: Interrupt
) -> None:
    note_stopped(run.directory, "interrupted")  # an earlier driver

    def finish(dispatcher: Dispatcher) -> None:
        finish_one(dispatcher)
        assert not run.directory.stopped_file.exists()  # it goes on
        run.is_over = lambda trials: True  # type: ignore[method-assign]
        if cause == "signal":
            raise KeyboardInterrupt
        interrupt.deadline = 0.0

    world.tune = finish
    result = drive(run)
    assert interrupt.requested is (cause == "signal") and interrupt.must_stop
    assert (result.signal, result.out_of_time) == (None, False) and not run.directory.stopped_file.exists()


def test_a_signal_is_noted_and_tune_told_in_its_next_step(run: Run, world: World) -> None:
    def interrupted(dispatcher: Dispatcher) -> None:
        world.on_step()
        assert world.told == []
        signal.raise_signal(signal.SIGINT)
        world.on_step()

    world.tune = interrupted
    before = signal.getsignal(signal.SIGINT)
    assert drive(run).signal == signal.SIGINT and world.told == [signal.SIGUSR1]
    assert signal.getsignal(signal.SIGINT) is before


def test_the_signal_on_which_tune_stops_by_itself_stops_the_run(run: Run, world: World, interrupt: Interrupt) -> None:
    def sent_by_slurm(dispatcher: Dispatcher) -> None:
        finish_one(dispatcher)
        signal.raise_signal(signal.SIGUSR1)
        wait_until(lambda: interrupt.requested, 30, "the signal to be noted")

    world.tune = sent_by_slurm
    assert drive(run).signal == signal.SIGUSR1 and world.told == [signal.SIGUSR1]
    assert run.directory.stopped_file.read_text() == "interrupted\n" and MlflowWriter.closed == [("KILLED", 8.0)]


def test_when_the_time_is_up_no_trial_is_begun(run: Run, world: World) -> None:
    result = drive(run, DriveOptions(time_budget=0.0))
    assert (result.out_of_time, result.signal, world.did) == (True, None, [])
    assert run.directory.stopped_file.read_text() == "time budget\n"
    assert MlflowWriter.closed[0][0] == "KILLED"


@pytest.mark.parametrize(("during", "left_out"), [("ray", "nodes"), ("nodes", "tune")])
def test_a_time_budget_that_ends_before_the_trials_starts_none(
    during: str, left_out: str, run: Run, world: World, interrupt: Interrupt
) -> None:
    def out_of_time(*_: object) -> None:
        world.did.append((during,))
        interrupt.deadline = 0.0

    if during == "ray":
        world.starting = out_of_time
    else:
        world.checked = out_of_time
    assert drive(on_cluster(run)).out_of_time
    did = [each[0] for each in world.did]
    assert during in did and left_out not in did


def test_a_node_is_waited_for_no_longer_than_the_time_budget(run: Run, world: World, interrupt: Interrupt) -> None:
    def starting() -> None:
        world.check()
        interrupt.deadline = 0.0
        world.check()
        pytest.fail("it waits on")

    world.starting = starting
    assert drive(on_cluster(run)).out_of_time and not interrupt.requested


def test_the_handlers_of_signals_are_ours_again_once_ray_has_started(run: Run, world: World) -> None:
    found: list[Any] = []
    world.starting = lambda: found.append(signal.signal(signal.SIGTERM, lambda number, frame: None))
    world.tune = lambda dispatcher: found.append(signal.getsignal(signal.SIGTERM))
    drive(run)
    assert found[0] == found[1]


def test_the_handlers_of_signals_are_ours_again_once_ray_has_ended(
    run: Run, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's C++ takes the system's for SIGTERM as it ends, so that the signal ended a driver that wrote results."""
    found: list[Any] = []
    conclude = Driver.conclude

    def concluded(*about: Any) -> None:
        found.append(signal.getsignal(signal.SIGTERM))
        conclude(*about)

    world.ending = lambda: found.append(signal.signal(signal.SIGTERM, signal.SIG_DFL))
    monkeypatch.setattr(Driver, "conclude", concluded)
    drive(run)
    assert found[0] == found[1]


def test_no_signal_stops_the_writing_of_results(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = MlflowWriter.wait

    def interrupted(self: MlflowWriter, longest: float) -> None:
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        wait(self, longest)

    def conclude(trials: list[TrialSummary]) -> Conclusion:
        signal.raise_signal(signal.SIGINT)
        return Conclusion()

    monkeypatch.setattr(MlflowWriter, "wait", interrupted)
    monkeypatch.setattr(run, "conclude", conclude)
    assert drive(run).signal is None and MlflowWriter.closed == [("FINISHED", float("inf"))]


def test_a_stop_is_shown_until_results_are_written(run: Run, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Callable[[], str | None]] = []
    said: list[str | None] = []

    def stopping(dispatcher: Dispatcher) -> None:
        signal.raise_signal(signal.SIGINT)
        said.append(shown[-1]())

    world.tune = stopping
    monkeypatch.setattr("tausearch.presentation.ProgressDisplay.show_stopping", lambda self, why: shown.append(why))
    drive(run)
    assert str(said[0]).startswith("stopping on Ctrl-C") and shown[-1]() is None


def test_a_signal_counts_before_the_time_budget(run: Run, interrupt: Interrupt) -> None:
    interrupt.deadline = 0.0
    interrupt.note(signal.SIGINT)
    result = drive(run)
    assert (result.out_of_time, result.signal) == (False, signal.SIGINT)
    assert MlflowWriter.closed == [("KILLED", float("inf"))]


def test_the_time_budget_is_checked_in_every_step_of_tune(run: Run, world: World) -> None:
    world.tune = lambda dispatcher: world.on_step()
    assert drive(run, DriveOptions(time_budget=60.0)).out_of_time is False and world.told == []
    assert MlflowWriter.closed[0][0] == "KILLED", "nothing of it is over"


def test_a_storage_that_is_full_ends_it_with_the_command_that_goes_on(run: Run, world: World) -> None:
    world.tune = then(finish_one, OSError(errno.ENOSPC, "no space left"))
    with pytest.raises(StorageError, match=r"no space left; mend that, then: .*resume digits-ita-lora-1 --storage"):
        drive(run)
    assert MlflowWriter.closed == [("KILLED", 5.0)]


def test_a_storage_that_goes_away_stops_tune(run: Run, world: World) -> None:
    def lost(dispatcher: Dispatcher) -> None:
        finish_one(dispatcher)
        run.directory.spec_file.unlink()
        world.on_step()

    world.tune = lost
    with pytest.raises(StorageError, match="is gone"):
        drive(run)
    assert world.told == [signal.SIGUSR1]


@pytest.mark.parametrize("error", [FileNotFoundError(errno.ENOENT, "not there"), RuntimeError("broken")])
def test_any_other_error_is_raised_and_what_was_found_is_kept(error: Exception, run: Run, world: World) -> None:
    world.tune = then(finish_one, error)
    with pytest.raises(type(error), match=str(error.args[-1])):
        drive(run)
    assert MlflowWriter.closed == [("KILLED", float("inf"))]  # concluded as far as it came; it can be continued
    assert [trial.number for trial in Record(run.directory.record).trials()] == [0]


def test_a_cluster_that_cannot_run_trials_leaves_the_run_as_it_was(run: Run, world: World) -> None:
    told: list[object] = []

    def refuse() -> None:
        raise InputError("no node has a GPU")

    note_stopped(run.directory, "interrupted")
    world.starting = refuse
    with pytest.raises(InputError, match="no node has a GPU"):
        drive(run, DriveOptions(callbacks=[SimpleNamespace(on_event=told.append)]))
    assert told == [] and run.directory.stopped_file.read_text() == "interrupted\n"
    assert MlflowWriter.closed == [] and world.did == [("ray", [run.spec.resources], None)]


@pytest.mark.parametrize(
    ("budget", "number", "why"),
    [
        (None, None, None),
        (0.0, None, "as the time budget is used up"),
        (0.0, signal.SIGINT, "on Ctrl-C"),
        (0.0, signal.SIGTERM, "on SIGTERM"),
        (0.0, signal.SIGUSR1, "on SIGUSR1"),
    ],
)
def test_what_stops_it_is_said(budget: float | None, number: int | None, why: str | None) -> None:
    interrupt = Interrupt(budget)
    if number is not None:
        interrupt.note(number)
    said = _why_stopping(interrupt)
    assert said is None if why is None else str(said).startswith(f"stopping {why}: trials under way can be continued")
