"""Import large libraries while Python's garbage collector is off."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class _Paused:
    blocks: int = 0  # of all threads
    was_on: bool = True  # before the first of them


_lock, _paused = threading.Lock(), _Paused()


@contextmanager
def uncollected() -> Iterator[None]:
    """Turn the garbage collector off while a block imports torch, Ray or timm.

    It would look at the growing number of imported objects again and again, which takes a fifth of the time. After the
    block they count as old, so the next small collection does not look at all of them.
    """
    with _lock:
        if _paused.blocks == 0:
            _paused.was_on = gc.isenabled()
        _paused.blocks += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # puts them into the oldest generation
            _paused.blocks -= 1
            if _paused.blocks == 0 and _paused.was_on:
                gc.enable()
