"""Import large libraries while Python's garbage collector is off."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Turn the garbage collector off while a block imports torch, Ray or timm.

    It would look at the growing number of imported objects again and again, which takes a fifth of the time. After the
    block they count as old, so the next small collection does not look at all of them.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # puts them into the oldest generation
        if on:
            gc.enable()
