"""Report that the head of a cluster is gone, before Ray ends this process without a message."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from tausearch.cluster.watchdog import beside

SILENT_SECONDS = 20.0  # until the message; Ray ends the process after 60
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
    return beside("cluster-head", partial(_watch, reached_at if is_client else None, say, resume))


def _watch(address: str | None, say: Callable[[str], None], resume: str, ended: threading.Event) -> None:
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
    try:
        socket.create_connection((host, int(port)), timeout=_EVERY).close()
    except OSError:
        return False
    return True
