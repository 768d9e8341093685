"""Ctrl-C is noted and acted upon where it is safe, and never while results are being written."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from tausearch.execution import interrupt as interrupt_module
from tausearch.execution.interrupt import interruptible
from tests.support.drivers.services import wait_until


def press(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_the_first_is_noted_and_raised_where_it_is_safe(number: int) -> None:
    with interruptible() as interrupt:
        interrupt.check()
        assert not interrupt.requested and not interrupt.urgent
        press(number)
        assert interrupt.requested and interrupt.signal == number
        assert interrupt.urgent == (number != signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()


def test_the_second_raises_at_once() -> None:
    with interruptible() as interrupt:
        press()
        with pytest.raises(KeyboardInterrupt):
            press(signal.SIGTERM)
        assert interrupt.signal == signal.SIGINT


def test_the_second_raises_though_a_library_has_handled_the_first() -> None:
    with interruptible() as interrupt:
        heard_by_tune()
        press(signal.SIGUSR1)
        wait_until(lambda: interrupt.requested, 30, "the signal to be noted")
        with pytest.raises(KeyboardInterrupt):
            press()


def test_a_driver_knows_the_signal_that_came_while_its_run_was_made() -> None:
    with interruptible(time_budget=3600) as making:
        press()
        with interruptible(time_budget=0.0) as driving:
            assert driving is making and driving.signal == signal.SIGINT and driving.out_of_time
        with pytest.raises(KeyboardInterrupt):  # the inner block has left the handler
            press()


def test_a_driver_without_a_time_budget_keeps_that_of_its_command() -> None:
    with interruptible(time_budget=0.0) as making, interruptible() as driving:
        assert driving is making and driving.out_of_time


def test_what_is_called_at_once_is_called_with_the_signal_that_came_before_or_comes_and_not_afterwards() -> None:
    told: list[int] = []
    for before, during in ((None, signal.SIGINT), (signal.SIGTERM, None)):
        interrupt = interrupt_module.Interrupt()
        if before is not None:
            interrupt.note_in_thread(before)
        with interrupt.at_once(told.append):
            if during is not None:
                interrupt.note_in_thread(during)
        interrupt.note_in_thread(signal.SIGINT)
    assert told == [signal.SIGINT, signal.SIGTERM]


def test_while_ray_starts_a_second_signal_raises_nothing_either() -> None:
    with interruptible() as interrupt:
        with interrupt.at_once(lambda number: None):
            press()
            press()
        with pytest.raises(KeyboardInterrupt):
            press()


@pytest.mark.parametrize("name", ["stopped", "signal", "deadline"])
def test_each_reason_alone_stops_tune(name: str) -> None:
    interrupt = interrupt_module.Interrupt()
    assert not interrupt.must_stop
    setattr(interrupt, name, {"stopped": True, "signal": signal.SIGINT, "deadline": 0.0}[name])
    assert interrupt.must_stop


def heard_by_tune() -> list[int]:
    """The signals that Tune receives, which takes the place of the handler of SIGUSR1."""
    found: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, frame: found.append(number))
    return found


def test_tune_is_told_from_its_own_loop() -> None:
    with interruptible() as interrupt:
        heard = heard_by_tune()
        interrupt.stop_tune()
        assert heard == []
        press()
        interrupt.stop_tune()
        assert heard == [signal.SIGUSR1]


@pytest.mark.parametrize(("budget", "out"), [(3600, False), (0.0, True)])
def test_the_time_budget_stops_tune_and_the_start_of_trials(budget: float, out: bool) -> None:
    with interruptible(time_budget=budget) as interrupt:
        heard = heard_by_tune()
        interrupt.stop_tune()
        assert heard == [signal.SIGUSR1] * out
        with pytest.raises(KeyboardInterrupt) if out else nullcontext():
            interrupt.check()
        assert interrupt.out_of_time == out and not interrupt.requested  # it was no signal


def test_protected_it_is_only_noted() -> None:
    with interruptible() as interrupt:
        interrupt.protected = True
        press()
        press()
        assert interrupt.requested


def test_the_handler_is_put_back() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(each) for each in numbers]
    with interruptible():
        assert all(signal.getsignal(each) != original for each, original in zip(numbers, before, strict=True))
        heard_by_tune()
    assert [signal.getsignal(each) for each in numbers] == before


def test_it_listens_again_where_a_library_has_put_its_own_handler() -> None:
    with interruptible() as interrupt:
        signal.signal(signal.SIGTERM, lambda number, frame: pytest.fail("the library's"))
        interrupt.listen()
        press(signal.SIGTERM)
        assert interrupt.urgent


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_is_noted_whoever_handles_it(number: int) -> None:
    with interruptible() as interrupt:
        signal.signal(number, lambda number, frame: None)  # Ray's, of which Python has ignored what it raised; Tune's
        press(number)
        wait_until(lambda: interrupt.urgent, 30, "the signal to be noted")
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()


def test_no_other_signal_is_noted_and_nothing_listens_afterwards() -> None:
    threads, original = threading.active_count(), signal.signal(signal.SIGUSR2, lambda number, frame: None)
    with interruptible() as interrupt:
        press(signal.SIGUSR2)
    signal.signal(signal.SIGUSR2, original)
    assert not interrupt.requested  # the listener has ended, so it has read every signal
    assert signal.set_wakeup_fd(-1) == -1 and threading.active_count() == threads


# The main thread is in C, and the signal reaches another one: so no handler of Python runs until the minute is over.
STUCK = """
import ctypes, os, signal
from tausearch.execution import interrupt as module
module.STUCK_SECONDS = 0.2
with module.interruptible() as interrupt, interrupt.not_stuck(lambda: os._exit(7)):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    print("ready", flush=True)
    ctypes.CDLL(None).sleep(60)
"""


def test_sigterm_ends_a_process_whose_main_thread_runs_no_handler() -> None:
    with subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.wait(50) == 7


def test_outside_the_main_thread_nothing_is_handled() -> None:
    before = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as pool:

        def handler_inside() -> object:
            with interruptible():
                return signal.getsignal(signal.SIGINT)

        assert pool.submit(handler_inside).result() == before
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize(("number", "leaves"), [(signal.SIGINT, False), (signal.SIGTERM, True)])
def test_who_is_stuck_after_sigterm_leaves(number: int, leaves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt_module, "STUCK_SECONDS", 0.05)
    left = threading.Event()
    with interruptible() as interrupt, interrupt.not_stuck(left.set):
        press(number)
        assert left.wait(30 if leaves else 0.5) == leaves


def test_a_second_sigterm_starts_no_second_wait_and_who_listened_before_listens_again() -> None:
    interrupt = interrupt_module.Interrupt()
    with interrupt.not_stuck(lambda: None):
        for _ in range(2):
            interrupt.note_in_thread(signal.SIGTERM)
    ear, mouth = socket.socketpair()
    with ear, mouth:
        mouth.setblocking(False)
        signal.set_wakeup_fd(mouth.fileno())
        with interruptible():
            pass
        assert signal.set_wakeup_fd(-1) == mouth.fileno()


def test_who_is_not_stuck_does_not_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt_module, "STUCK_SECONDS", 0.2)
    left = threading.Event()
    with interruptible() as interrupt:
        with interrupt.not_stuck(left.set):
            press(signal.SIGTERM)
        assert not left.wait(0.6)
        with interrupt.not_stuck(left.set):
            pass
        assert not left.wait(0.4)
