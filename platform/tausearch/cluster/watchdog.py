"""A thread that looks at something for as long as a block runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(name: str, look: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run a function in a thread of its own while the block runs.

    Args:
        name: Name of the thread.
        look: The function; it is handed the event that says that the block has ended, and is not waited for.
    """
    ended = threading.Event()
    threading.Thread(target=look, args=(ended,), name=name, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
