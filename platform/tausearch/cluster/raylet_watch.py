"""Notice the death of the raylet of our own Ray, which Ray does not always report to the driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import psutil

from tausearch.cluster.watchdog import beside

GRACE_SECONDS = 6.0  # Ray mostly ends this process within this time
_EVERY = 2.0  # seconds


def raylet_watched(gone: Callable[[], None]) -> AbstractContextManager[None]:
    """Check while the block runs whether the raylet that this process has started is alive.

    If the driver is not waiting for the raylet when it dies, Ray does not end the driver. Tune then waits forever for
    resources.

    Args:
        gone: Called from another thread after the raylet has been dead for `GRACE_SECONDS`.

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
