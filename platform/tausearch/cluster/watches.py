"""Notice that the head of a cluster, or our own raylet, is gone: Ray does not always say so to the driver."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial

import psutil

SILENT_SECONDS = 20.0  # of the head until the message; Ray ends the process after 60
GRACE_SECONDS = 6.0  # after the death of the raylet; Ray mostly ends this process within this time
_EVERY = 2.0  # seconds


def head_watched(address: str, say: Callable[[str], None], resume: str) -> AbstractContextManager[None]:
    """Check while the block runs whether the head of the joined cluster answers.

    A cluster without its head loses its trials. Ray waits a minute for the head and then ends the process from C++,
    where no Python code can print a message.

    Args:
        address: Address of the cluster, as given by `--address`.
        say: Function that shows a line to the user.
        resume: The command that continues the run.

    Returns:
        The context of the block.
    """
    _, is_client, reached_at = address.rpartition("ray://")
    return _beside("cluster-head", partial(_watch_head, reached_at if is_client else None, say, resume))


def raylet_watched(gone: Callable[[], None]) -> AbstractContextManager[None]:
    """Call `gone` from a thread if the raylet of this process has been dead for `GRACE_SECONDS` in the block.

    If the driver is not waiting for the raylet when it dies, Ray does not end the driver. Tune then waits forever for
    resources.

    Returns:
        The context of the block.
    """
    raylets = [child for child in psutil.Process().children() if child.name() == "raylet"]
    return _beside("raylet", partial(_watch_raylets, raylets, gone))


@contextmanager
def _beside(name: str, look: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `look` in a daemon thread while the block runs; the event is set at the block's end."""
    ended = threading.Event()
    threading.Thread(target=look, args=(ended,), name=name, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _watch_head(address: str | None, say: Callable[[str], None], resume: str, ended: threading.Event) -> None:
    silent = 0.0
    while not ended.wait(_EVERY):
        address = address or _joined()
        if address is None or _answers(address):
            silent = 0.0
            continue
        silent += _EVERY
        if silent >= SILENT_SECONDS:
            say(
                f"the head of the Ray cluster, {address}, does not answer; Ray ends this process if it stays away."
                f" Nothing that was finished is lost; continue with: {resume}"
            )
            return


def _joined() -> str | None:
    """Return the address of the head; None before this process has joined a cluster."""
    import ray  # takes seconds to import

    return ray.get_runtime_context().gcs_address if ray.is_initialized() else None


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=_EVERY):
        return True
    return False


def _watch_raylets(raylets: list[psutil.Process], gone: Callable[[], None], ended: threading.Event) -> None:
    while not ended.wait(_EVERY):
        if any(map(_is_dead, raylets)) and not ended.wait(GRACE_SECONDS):
            gone()
            return


def _is_dead(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
