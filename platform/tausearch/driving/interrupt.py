"""Ctrl-C and the end of the time budget: stop in order, and let nothing that has been found be lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """What Ctrl-C does while a run is driven: it is noted, and acted upon where it is safe to.

    Raising KeyboardInterrupt wherever the program happens to be would leave Ray half started, or be swallowed by a
    library. The second Ctrl-C does raise it, unless the run is `protected`: what was found is being written.

    Args:
        time_budget: Seconds after which Tune is stopped as by Ctrl-C; None for no limit.
    """

    def __init__(self, time_budget: float | None = None) -> None:
        self.deadline = None if time_budget is None else time.monotonic() + time_budget
        self.requested = False
        self.stopped = False
        self.protected = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Take note of the signal.

        Raises:
            KeyboardInterrupt: If this is the second Ctrl-C and the run is not `protected`.
        """
        again, self.requested = self.requested, True
        if again and not self.protected:
            raise KeyboardInterrupt

    def stop(self) -> None:
        """Have Tune stopped, for whatever reason the caller knows."""
        self.stopped = True

    @property
    def out_of_time(self) -> bool:
        """Whether the time budget is used up."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def check(self) -> None:
        """Stop here if Ctrl-C has been pressed.

        Raises:
            KeyboardInterrupt: If Ctrl-C has been pressed.
        """
        if self.requested:
            raise KeyboardInterrupt

    @property
    def must_stop(self) -> bool:
        """Whether Tune is to be stopped."""
        return self.requested or self.out_of_time or self.stopped

    def stop_tune(self) -> None:
        """Let Tune, whose event loop calls this, stop after its current event: it does so on SIGUSR1.

        Raises:
            KeyboardInterrupt: Outside the main thread instead, where Tune has no handler and the signal would kill.
        """
        if self.must_stop:
            if threading.current_thread() is not threading.main_thread():
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGUSR1)


@contextmanager
def interruptible(time_budget: float | None = None) -> Iterator[Interrupt]:
    """Handle Ctrl-C for as long as the block runs. Outside the main thread, which no signal reaches, do nothing."""
    interrupt = Interrupt(time_budget)
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    original = signal.signal(signal.SIGINT, interrupt.handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, original)
