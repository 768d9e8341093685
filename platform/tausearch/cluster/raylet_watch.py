"""Notice that the raylet of a Ray of our own has died, which Ray tells the driver of not in every case."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import psutil

from tausearch.cluster.watchdog import beside

GRACE_SECONDS = 6.0  # in which Ray mostly ends this process by itself
_EVERY = 2.0  # seconds


def raylet_watched(gone: Callable[[], None]) -> AbstractContextManager[None]:
    """Look whether the raylet that this process has started runs, for as long as the block does.

    Without it there is no node. Where the driver waits for nothing of it when it dies, Ray does not end the driver, and
    Tune waits for resources for good.

    Args:
        gone: Function that is called, from another thread, once it has been gone for some seconds.

    Returns:
        The context of the block.
    """
    raylets = [child for child in psutil.Process().children() if child.name() == "raylet"]
    return beside("raylet", partial(_watch, raylets, gone))


def _watch(raylets: list[psutil.Process], gone: Callable[[], None], ended: threading.Event) -> None:
    while not ended.wait(_EVERY):
        if any(map(_is_dead, raylets)) and not ended.wait(GRACE_SECONDS):
            gone()
            return


def _is_dead(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
