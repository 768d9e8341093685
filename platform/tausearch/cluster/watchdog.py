"""A thread that watches while a block runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(name: str, look: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `look` in a daemon thread named `name` while the block runs; the event is set at the block's end."""
    ended = threading.Event()
    threading.Thread(target=look, args=(ended,), name=name, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
