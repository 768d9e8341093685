"""The time that a training loop waits for its batches."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class Waiting:
    """Counts the seconds until each item is there, those of reading and transforming images.

    Attributes:
        seconds: The sum so far, over all iterations.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    def counted(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items."""
        waiting_for = iter(items)
        while True:
            start = time.perf_counter()
            try:
                item = next(waiting_for)
            except StopIteration:
                return
            finally:
                self.seconds += time.perf_counter() - start
            yield item
