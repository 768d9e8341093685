"""Progress of long work that is not a run: a bar in a terminal, plain lines elsewhere, nothing for short work.

Nothing in a notebook either, where lines on stderr look like errors.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tausearch.presentation.terminal.live import PLAIN_INTERVAL
from tausearch.presentation.terminal.text import SafeConsole, clock, in_notebook


class LongWork:
    """Shows pieces of work one after the other on stderr, so that stdout holds results alone."""

    def __init__(self) -> None:
        self.console = SafeConsole(file=sys.stderr)
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )

    def __enter__(self) -> LongWork:
        if self.console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.console.is_terminal:
            self._bars.stop()

    def start(self, name: str, total: int) -> Callable[[int], None]:
        """Begin a piece of work on `total` files, 0 if unknown; returns a function that adds to the number done."""
        if in_notebook():
            return lambda count: None
        if not self.console.is_terminal:
            return _PlainPiece(self.console, name, total)
        task = self._bars.add_task(name, total=total or None)
        return lambda count: self._bars.advance(task, count)


class _PlainPiece:
    """Prints a line every `PLAIN_INTERVAL` seconds; none for a piece that is over before."""

    def __init__(self, console: SafeConsole, name: str, total: int) -> None:
        self.console = console
        self.name = name
        self.total = total
        self.done = 0
        self.start = self.last = time.monotonic()

    def __call__(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if now - self.last < PLAIN_INTERVAL:
            return
        self.last = now
        line = f"{self.name}: {self.done}{f'/{self.total}' if self.total else ''} | {clock(now - self.start)} elapsed"
        if self.total:
            line += f", {clock((now - self.start) * (self.total - self.done) / self.done)} left"
        self.console.print(line, highlight=False, soft_wrap=True)
