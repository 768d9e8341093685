"""Ctrl-C before, during and after Tune, and while results are being written."""

from __future__ import annotations

import os
import signal

import pytest

from tausearch.interrupt import interruptible


def test_before_tune_it_raises() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible() as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
    assert interrupt.requested


def test_during_tune_it_becomes_tunes_signal() -> None:
    heard = []
    with interruptible() as interrupt:
        signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))  # as Tune does
        os.kill(os.getpid(), signal.SIGINT)
        assert heard == [signal.SIGUSR1] and interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_protected_it_is_only_noted() -> None:
    with interruptible() as interrupt:
        interrupt.protected = True
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.requested


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGUSR1)
    with interruptible():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGUSR1)) == before
