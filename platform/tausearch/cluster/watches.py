"""Notice that the head or a node of a cluster, or our own raylet, is gone: Ray does not always tell the driver."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any

import psutil

SILENT_SECONDS = 20.0  # of the head until the message; Ray ends the process after 60
GRACE_SECONDS = 6.0  # after the death of the raylet; Ray mostly ends this process within this time
_EVERY = 2.0  # seconds
_NODES_EVERY = 5.0  # seconds


def head_watched(address: str, say: Callable[[str], None], resume: str) -> AbstractContextManager[None]:
    """Return a block in which a thread checks whether the head of the joined cluster answers.

    A cluster without its head loses its trials. Ray waits a minute for the head and then ends the process from C++,
    where no Python code can print a message. `resume` is the command that continues the run.
    """
    _, is_client, reached_at = address.rpartition("ray://")
    return _watching_thread("cluster-head", partial(_watch_head, reached_at if is_client else None, say, resume))


def raylet_watched(gone: Callable[[], None]) -> AbstractContextManager[None]:
    """Return a block in which a thread calls `gone` if the raylet of this process has been dead for `GRACE_SECONDS`.

    If the driver is not waiting for the raylet when it dies, Ray does not end the driver. Tune then waits forever for
    resources.
    """
    raylets = [child for child in psutil.Process().children() if child.name() == "raylet"]
    return _watching_thread("raylet", partial(_watch_raylets, raylets, gone))


def nodes_watched(say: Callable[[str], None]) -> AbstractContextManager[None]:
    """Return a block in which a thread says when a node leaves or joins the cluster that this process has joined."""
    return _watching_thread("cluster-nodes", partial(_watch_nodes, say))


def node_name(node: Mapping[str, Any]) -> str:
    """Return the name of an entry of `ray.nodes()` for people."""
    return f"node {node['NodeManagerHostname']} ({node['NodeManagerAddress']}, Ray's {node['NodeID'][:8]})"


@contextmanager
def _watching_thread(name: str, look: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `look` in a daemon thread while the block runs; the event is set at the block's end."""
    ended = threading.Event()
    thread = threading.Thread(target=look, args=(ended,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_EVERY)  # Ray is not asked while it shuts down


def _watch_head(address: str | None, say: Callable[[str], None], resume: str, ended: threading.Event) -> None:
    silent = 0.0
    while not ended.wait(_EVERY):
        address = address or _head_address()
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


def _head_address() -> str | None:
    """Return the address of the head; None before this process has joined a cluster."""
    import ray  # takes seconds to import

    return ray.get_runtime_context().gcs_address if ray.is_initialized() else None


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=_EVERY):
        return True
    return False


def _watch_nodes(say: Callable[[str], None], ended: threading.Event) -> None:
    known = _nodes()
    while not ended.wait(_NODES_EVERY):
        if not (now := _nodes()):
            continue  # the head does not answer, which is said elsewhere
        for gone in known.keys() - now.keys():
            say(f"{known[gone]} has left the cluster; its trials go on from their last task once a node has room")
        for new in now.keys() - known.keys() if known else ():
            say(f"{now[new]} has joined the cluster")
        known = now


def _nodes() -> Mapping[str, str]:
    """Return the id of each living node of the joined cluster, and its name; nothing while the head does not answer."""
    import ray  # takes seconds to import

    found: list[dict[str, Any]] = []
    with suppress(Exception):  # of Ray's C++, of many types
        found = ray.nodes()
    return {node["NodeID"]: node_name(node) for node in found if node["Alive"]}


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
