"""Ctrl-C is noted and acted upon where it is safe, and never while results are being written."""

from __future__ import annotations

import os
import signal

import pytest

from tausearch.driving.interrupt import interruptible


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_is_noted_and_raised_where_it_is_safe() -> None:
    with interruptible() as interrupt:
        interrupt.check()
        press()
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()


def test_the_second_raises_at_once() -> None:
    with interruptible():
        press()
        with pytest.raises(KeyboardInterrupt):
            press()


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
    before = signal.getsignal(signal.SIGINT)
    with interruptible():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
