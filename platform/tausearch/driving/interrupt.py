"""Ctrl-C, SIGTERM and the end of the time budget: stop in order, and let nothing that has been found be lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)  # Ctrl-C; the schedulers of clusters
STUCK_SECONDS = 12.0  # after SIGTERM: who sent it kills after about 30


class Interrupt:
    """What Ctrl-C and SIGTERM do while a run is driven: they are noted, and acted upon where it is safe to.

    Raising KeyboardInterrupt wherever the program happens to be would leave Ray half started, or be swallowed by a
    library. The second signal does raise it, unless the run is `protected`: what was found is being written.

    Args:
        time_budget: Seconds after which Tune is stopped as by Ctrl-C; None for no limit.

    Attributes:
        signal: Number of the first signal that came; None as long as none has.
    """

    def __init__(self, time_budget: float | None = None) -> None:
        self.deadline = None if time_budget is None else time.monotonic() + time_budget
        self.signal: int | None = None
        self._leave: threading.Timer | None = None
        self.stopped = False
        self.protected = False

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self.signal is not None

    @property
    def urgent(self) -> bool:
        """Whether whoever stops us kills us in half a minute, as the schedulers of clusters do after SIGTERM."""
        return self.signal == signal.SIGTERM

    def note(self, number: int) -> None:
        """Take note that a signal has come, if it is the first."""
        if self.signal is None:
            self.signal = number
            if self.urgent and self._leave is not None:
                self._leave.start()

    @contextmanager
    def not_stuck(self, leave: Callable[[], None]) -> Iterator[None]:
        """Call `leave`, from a thread, if the block has not ended some seconds after SIGTERM.

        A scheduler may send it to every process of a job. Then Ray's are gone while Tune still waits for them, and a
        minute later Ray ends this process without a word.
        """
        self._leave = timer = threading.Timer(STUCK_SECONDS, leave)
        timer.daemon = True
        try:
            yield
        finally:
            self._leave = None
            timer.cancel()

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Take note of the signal.

        Raises:
            KeyboardInterrupt: If this is the second signal and the run is not `protected`.
        """
        again = self.requested
        self.note(number)
        if again and not self.protected:
            raise KeyboardInterrupt

    def listen(self) -> None:
        """Handle the signals; again whenever a library has put handlers of its own in place, as Ray does as it starts.

        Outside the main thread, which no signal reaches, do nothing.
        """
        if threading.current_thread() is threading.main_thread():
            for each in _SIGNALS:
                signal.signal(each, self.handle)

    def stop(self) -> None:
        """Have Tune stopped, for whatever reason the caller knows."""
        self.stopped = True

    @property
    def out_of_time(self) -> bool:
        """Whether the time budget is used up."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def check(self) -> None:
        """Stop here if a signal has come, or the time is up.

        Raises:
            KeyboardInterrupt: If so.
        """
        if self.requested or self.out_of_time:
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
    """Handle Ctrl-C and SIGTERM for as long as the block runs, as far as signals reach the thread."""
    interrupt = Interrupt(time_budget)
    originals = {each: signal.getsignal(each) for each in _SIGNALS}
    interrupt.listen()
    try:
        yield interrupt
    finally:
        if threading.current_thread() is threading.main_thread():
            for each, original in originals.items():
                signal.signal(each, original)
