"""Ctrl-C is noted and acted upon where it is safe, and never while results are being written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tausearch.execution import driver
from tausearch.execution import interrupt as interrupt_module
from tausearch.execution.interrupt import interruptible
from tests.support.drivers.services import wait_until


def press(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_is_noted_and_raised_where_it_is_safe(number: int) -> None:
    with interruptible() as interrupt:
        interrupt.check()
        assert not interrupt.requested and not interrupt.urgent
        press(number)
        assert interrupt.requested and interrupt.signal == number
        assert interrupt.urgent == (number == signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()


def test_the_second_raises_at_once() -> None:
    with interruptible() as interrupt:
        press()
        with pytest.raises(KeyboardInterrupt):
            press(signal.SIGTERM)
        assert interrupt.signal == signal.SIGINT


def test_tune_is_told_from_its_own_loop() -> None:
    heard: list[int] = []
    original = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))  # as Tune does
    try:
        with interruptible() as interrupt:
            interrupt.stop_tune()
            assert heard == []
            press()
            interrupt.stop_tune()
            assert heard == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, original)


def test_protected_it_is_only_noted() -> None:
    with interruptible() as interrupt:
        interrupt.protected = True
        press()
        press()
        assert interrupt.requested


def test_tune_is_told_when_the_time_budget_is_used_up() -> None:
    heard: list[int] = []
    original = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    try:
        with interruptible(time_budget=3600) as interrupt:
            interrupt.stop_tune()
            assert heard == [] and not interrupt.out_of_time
        with interruptible(time_budget=0.0) as interrupt:
            interrupt.stop_tune()
            assert heard == [signal.SIGUSR1] and interrupt.out_of_time and not interrupt.requested
    finally:
        signal.signal(signal.SIGUSR1, original)


def test_the_handler_is_put_back() -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    with interruptible():
        assert signal.getsignal(signal.SIGINT) != before[0] and signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_it_listens_again_where_a_library_has_put_its_own_handler() -> None:
    with interruptible() as interrupt:
        signal.signal(signal.SIGTERM, lambda number, frame: pytest.fail("the library's"))
        interrupt.listen()
        press(signal.SIGTERM)
        assert interrupt.urgent


def test_a_signal_is_noted_whoever_handles_it() -> None:
    with interruptible() as interrupt:
        signal.signal(signal.SIGTERM, lambda number, frame: None)  # Ray's, of which Python has ignored what it raised
        press(signal.SIGTERM)
        wait_until(lambda: interrupt.urgent, 30, "the signal to be noted")
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()


def test_only_ctrl_c_and_sigterm_are_noted_and_nothing_listens_afterwards() -> None:
    original = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    threads = threading.active_count()
    try:
        with interruptible() as interrupt:
            press(signal.SIGUSR1)
        assert not interrupt.requested  # the listener has ended, so it has read whatever came
        assert signal.set_wakeup_fd(-1) == -1 and threading.active_count() == threads
    finally:
        signal.signal(signal.SIGUSR1, original)


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


@pytest.mark.parametrize(
    ("sent", "code", "why"),
    [(signal.SIGTERM, 128 + signal.SIGTERM, "stopped by SIGTERM"), (None, 1, "stopped: Ray's own process")],
)
def test_a_raylet_that_sigterm_ended_with_its_job_is_not_lost(
    sent: int | None, code: int, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(os, "_exit", lambda status: said.append(f"exit {status}"))
    with interruptible() as interrupt:
        if sent is not None:
            interrupt.note(sent)
        driver._leave_without_raylet(interrupt, said.append, "tausearch resume s")
    line, left = said
    assert line.startswith(why) and line.endswith("continue with: tausearch resume s") and left == f"exit {code}"


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


def test_the_time_budget_ends_it_before_the_first_trial() -> None:
    with interruptible(time_budget=3600) as interrupt:
        interrupt.check()
    with interruptible(time_budget=0.0) as interrupt, pytest.raises(KeyboardInterrupt):
        interrupt.check()
    assert not interrupt.requested  # it was no signal
