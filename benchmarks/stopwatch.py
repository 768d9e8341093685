"""Seconds that a program spends in each part of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

Part = str | Callable[[], str]  # its name, or what returns the name at a call


class Stopwatch:
    """Counts seconds of a clock for each part; a part that begins within another one interrupts it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._clock = clock
        self._running: list[str] = []
        self._since = 0.0

    def begin(self, part: str) -> None:
        """Count for a part from now on."""
        self._count()
        self._running.append(part)

    def end(self) -> None:
        """Count again for what was interrupted."""
        self._count()
        self._running.pop()

    @contextmanager
    def watching(self, functions: Iterable[tuple[Any, str, Part]]) -> Iterator[None]:
        """Count the calls of functions, each given as its owner, its name there and its part."""
        with ExitStack() as stack:
            for owner, name, part in functions:
                stack.enter_context(patch.object(owner, name, self._counted(getattr(owner, name), part)))
            yield

    def _counted(self, function: Callable[..., Any], part: Part) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            self.begin(part if isinstance(part, str) else part())
            try:
                return function(*arguments, **options)
            finally:
                self.end()

        return wrapped

    def _count(self) -> None:
        now = self._clock()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now
