"""Ctrl-C, SIGTERM, SIGUSR1 and the end of the time budget: an orderly stop that loses no result."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import ClassVar

_OF_SCHEDULERS = (signal.SIGTERM, signal.SIGUSR1)  # the latter from Slurm's `--signal`, before the job's time is over
_SIGNALS = (signal.SIGINT, *_OF_SCHEDULERS)  # the first from Ctrl-C
STUCK_SECONDS = 12.0  # after a scheduler's signal; schedulers kill about 30 after SIGTERM


class Interrupt:
    """Handles signals while a run is driven: it notes them, and the driver acts where that is safe.

    Raising KeyboardInterrupt wherever the program happens to be would leave Ray half started, or be swallowed by a
    library. The second signal does raise it, unless the run is `protected`.

    Args:
        time_budget: Seconds after which Tune is stopped as by Ctrl-C; None for no limit.

    Attributes:
        alone: Whether this process has no other work than the run, so that any signal may end it.
        signal: Number of the first signal that came; None before.
        stopped: Whether Tune must stop for a reason of the driver.
        protected: Whether Ray starts or results are being written, so that a second signal raises nothing.
        handled: Number of signals so far.
    """

    alone: ClassVar[bool] = False

    def __init__(self, time_budget: float | None = None) -> None:
        self.deadline = None if time_budget is None else time.monotonic() + time_budget
        self.signal: int | None = None
        self.handled = 0
        self.stopped = False
        self.protected = False
        self._leave: threading.Timer | None = None
        self._leave_now: Callable[[int], None] | None = None

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self.signal is not None

    @property
    def urgent(self) -> bool:
        """Whether the process will be killed in half a minute, as schedulers of clusters do."""
        return self.signal in _OF_SCHEDULERS

    def note(self, number: int) -> None:
        """Note a signal if it is the first."""
        if self.signal is None:
            self.signal = number

    def note_in_thread(self, number: int) -> None:
        """Note a signal from a thread, whichever handler it has. After a scheduler's the time of `not_stuck` starts."""
        self.note(number)
        if self._leave_now is not None:
            self._leave_now(number)
        leave = self._leave
        if self.urgent and leave is not None and leave.ident is None:
            leave.start()

    @contextmanager
    def not_stuck(self, leave: Callable[[], None]) -> Iterator[None]:
        """Call `leave` from a thread if the block has not ended `STUCK_SECONDS` after a scheduler's signal.

        A scheduler may send it to every process of a job. Then Ray's processes are gone while Tune still waits for
        them, and a minute later Ray ends this process without a message.
        """
        self._leave = timer = threading.Timer(STUCK_SECONDS, leave)
        timer.daemon = True
        try:
            yield
        finally:
            self._leave = None
            timer.cancel()

    @contextmanager
    def at_once(self, leave: Callable[[int], None]) -> Iterator[None]:
        """Call `leave` with the signal's number from a thread as soon as a signal comes while the block runs.

        Ray cannot be told to stop starting, which takes up to half a minute; nothing has been found in that time.
        If `leave` returns, the signal is noted alone: an error that is raised would leave Ray half started.
        """
        if self.signal is not None:
            leave(self.signal)
        self._leave_now, self.protected = leave, True
        try:
            yield
        finally:
            self._leave_now, self.protected = None, False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Note the signal.

        Raises:
            KeyboardInterrupt: If this is the second signal and the run is not `protected`.
        """
        self.note(number)
        self.handled += 1
        is_second = self.handled > 1 or self.signal != number  # Tune handles SIGUSR1, which is noted alone
        if is_second and not self.protected:
            raise KeyboardInterrupt

    def listen(self) -> None:
        """Install the handlers of signals. Ray installs its own when it starts, so this is called again.

        Outside the main thread, which no signal reaches, it does nothing.
        """
        if threading.current_thread() is threading.main_thread():
            for each in _SIGNALS:
                signal.signal(each, self.handle)

    @property
    def out_of_time(self) -> bool:
        """Whether the time budget is used up."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def check(self) -> None:
        """Raise a KeyboardInterrupt if a signal has come, or the time budget is used up."""
        if self.requested or self.out_of_time:
            raise KeyboardInterrupt

    @property
    def must_stop(self) -> bool:
        """Whether Tune must stop."""
        return self.requested or self.out_of_time or self.stopped

    def stop_tune(self) -> None:
        """Stop Tune after its current event, if it must stop. Tune's event loop calls this.

        Tune stops by its own handler of SIGUSR1. It is called and no signal is sent: one that comes is a scheduler's.

        Raises:
            KeyboardInterrupt: Outside the main thread instead, where Tune has no handler.
        """
        if self.must_stop:
            if threading.current_thread() is not threading.main_thread():
                raise KeyboardInterrupt
            stop = signal.getsignal(signal.SIGUSR1)
            assert callable(stop)
            stop(signal.SIGUSR1, None)


@contextmanager
def interruptible(time_budget: float | None = None) -> Iterator[Interrupt]:
    """Handle Ctrl-C, SIGTERM and SIGUSR1 while the block runs. Outside the main thread no signal arrives.

    A block within another one has the same `Interrupt`, so that no signal is lost between making a run and driving it.
    """
    interrupt = Interrupt(time_budget)
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    enclosing = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
    if isinstance(enclosing, Interrupt):
        enclosing.deadline = interrupt.deadline or enclosing.deadline
        yield enclosing
        return
    originals = {each: signal.getsignal(each) for each in _SIGNALS}
    interrupt.listen()
    try:
        with _signals_told_to(interrupt.note_in_thread):
            yield interrupt
    finally:
        for each, original in originals.items():
            signal.signal(each, original)


@contextmanager
def _signals_told_to(tell: Callable[[int], None]) -> Iterator[None]:
    """Call `tell` from a thread with every signal that comes.

    Python's own handlers run in the main thread, between two of its instructions, so never while it waits in Ray's C++.
    An error that Ray's handler raises as Ray starts is lost where Python ignores errors, as in `__del__`.
    """
    ear, mouth = socket.socketpair()
    mouth.setblocking(False)  # `set_wakeup_fd` requires it
    before = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    listener = threading.Thread(target=_listen, args=(ear, tell), daemon=True)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        mouth.shutdown(socket.SHUT_WR)  # ends the listener even if a forked child also holds the socket
        listener.join()
        mouth.close()
        ear.close()


def _listen(ear: socket.socket, tell: Callable[[int], None]) -> None:
    while numbers := ear.recv(64):
        for number in numbers:
            if number in _SIGNALS:
                tell(number)
