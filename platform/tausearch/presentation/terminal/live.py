"""A display that a person watches: redrawn in a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self, TextIO

from rich.console import RenderableType
from rich.live import Live

from tausearch.presentation.terminal.text import SafeConsole, clock

PLAIN_INTERVAL = 15.0  # seconds between plain lines while nothing ends


class LiveDisplay(ABC):
    """Draws itself four times a second in a terminal; elsewhere prints a line if none was printed for a while."""

    def __init__(self, screen: TextIO) -> None:
        self.console = SafeConsole(file=screen)
        self.start = time.monotonic()
        self._last_line = self.start
        self._ended_event = threading.Event()
        self._heartbeat = threading.Thread(target=self._beat, name="progress", daemon=True)
        self._live: Live | None = None
        self.stage: str | None = "starting Ray"
        self._why_stopping: Callable[[], str | None] = lambda: None
        self._said_stopping = False

    @abstractmethod
    def render(self) -> RenderableType:
        """Return what a terminal shows."""

    @abstractmethod
    def status_line(self) -> str:
        """Return the plain line about the present state."""

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(
                get_renderable=self.render,
                console=self.console,
                refresh_per_second=4,
                transient=True,
                redirect_stdout=False,  # libraries' output belongs in the log
                redirect_stderr=False,
            )
            self._live.start()
        else:
            self._heartbeat.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()
        else:
            self._ended_event.set()
            self._heartbeat.join()

    @abstractmethod
    def seconds_left(self) -> float | None:
        """Estimate the time left; None while nothing is known."""

    @property
    def elapsed(self) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self.start

    def times(self) -> str:
        """Return the time that has passed and the time left, as text."""
        left = self.seconds_left()
        return f"{clock(self.elapsed)} elapsed" + ("" if left is None else f", about {clock(left)} left")

    def say(self, line: str) -> None:
        """Print one line above the display."""
        self.console.print(line, highlight=False, soft_wrap=True)

    def say_plainly(self, line: str) -> None:
        """Print one line if there is no terminal."""
        if not self.console.is_terminal:
            self.say(line)
            self._last_line = time.monotonic()

    def enter(self, stage: str) -> None:
        """Show a stage, the work while no trial runs; without a terminal, print it once."""
        self.stage = stage
        self.say_plainly(stage)

    def show_stopping(self, why: Callable[[], str | None]) -> None:
        """Show that the run is being stopped as soon as `why`, called again and again, returns a reason."""
        self._why_stopping = why

    @property
    def phase(self) -> str | None:
        """The work in place of running trials: stopping, or the stage; None while trials run."""
        return self._why_stopping() or self.stage

    def _beat(self) -> None:
        """Print a plain line whenever none has been printed for a while; runs in a thread of its own."""
        while not self._ended_event.wait(0.5):
            if not self._said_stopping and (why := self._why_stopping()):
                self._said_stopping = True
                self.say_plainly(why)
            if time.monotonic() - self._last_line > PLAIN_INTERVAL:
                self.say_plainly(self.status_line())
