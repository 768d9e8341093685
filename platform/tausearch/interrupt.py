"""Ctrl-C: stop in order whatever is going on, and let nothing that has been found be lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """What Ctrl-C does while a run is driven: it is noted, and acted upon where it is safe to.

    Raising KeyboardInterrupt wherever the program happens to be would leave Ray half started, or be swallowed by a
    library. The second Ctrl-C does raise it, unless the run is `protected`: what was found is being written.
    """

    def __init__(self) -> None:
        self.requested = False
        self.protected = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Take note of the signal.

        Raises:
            KeyboardInterrupt: The second time.
        """
        again, self.requested = self.requested, True
        if again and not self.protected:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Stop here if Ctrl-C has been pressed.

        Raises:
            KeyboardInterrupt: If so.
        """
        if self.requested:
            raise KeyboardInterrupt

    def stop_tune(self) -> None:
        """Let Tune, whose event loop calls this, stop after its current event: it does so on SIGUSR1."""
        if self.requested:
            os.kill(os.getpid(), signal.SIGUSR1)


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Handle Ctrl-C for as long as the block runs. Outside the main thread, which no signal reaches, do nothing."""
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    original = signal.signal(signal.SIGINT, interrupt.handle)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, original)
