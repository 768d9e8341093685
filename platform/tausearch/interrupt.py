"""Ctrl-C: stop in order whatever is going on, and let nothing that has been found be lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """What Ctrl-C does while a run is driven.

    Before Tune runs and after it, it raises KeyboardInterrupt. While Tune runs it becomes SIGUSR1, on which Tune stops
    after its current event. Once `protected`, it does nothing: what was found is being written.
    """

    def __init__(self) -> None:
        self.requested = False
        self.protected = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Take note of the signal and pass it on.

        Raises:
            KeyboardInterrupt: Unless Tune can be told, or the run is protected; always the second time in Tune.
        """
        again, self.requested = self.requested, True
        if self.protected:
            return
        if again or signal.getsignal(signal.SIGUSR1) is _not_tune:
            raise KeyboardInterrupt
        os.kill(os.getpid(), signal.SIGUSR1)


def _not_tune(number: int, frame: FrameType | None) -> None:
    """Stand in for Tune's handler of SIGUSR1 until Tune has put its own there; by default the signal would kill."""


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Handle Ctrl-C for as long as the block runs. Outside the main thread, which no signal reaches, do nothing."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    handlers = {
        signal.SIGUSR1: signal.signal(signal.SIGUSR1, _not_tune),
        signal.SIGINT: signal.signal(signal.SIGINT, interrupt.handle),
    }
    try:
        yield interrupt
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
