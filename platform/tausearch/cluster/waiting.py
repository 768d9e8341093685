"""Wait until Ray's autoscaler has started a node for a trial.

`ray status` alone tells of every version of the autoscaler whether there is one, and whether a node is on its way.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from tausearch.runs import Resources
from trainables.errors import InputError

_BY_HAND = re.compile("node_[0-9a-f]{56}")  # the type of a node that no autoscaler has started
_EVERY = 10.0  # seconds
_PATIENCE = 120.0  # seconds without a node on its way
_STATUS_SECONDS = 60.0


def starts_nodes(status: str) -> bool:
    """Whether a cluster has an autoscaler, from the text of `ray status`: its nodes have types with names."""
    counted = (re.match(r"\d+ (\S+)", line) for line in _lines(status, "Node status"))
    return any(found is not None and not _BY_HAND.fullmatch(found[1]) for found in counted)


def on_its_way(status: str) -> bool:
    """Whether a node is being started, from the text of `ray status`."""
    return any(not line.startswith("(no ") for line in _lines(status, "Pending:"))


def _lines(status: str, start: str) -> Iterator[str]:
    for line in status.partition(f"{start}\n")[2].partition("\nRecent failures:")[0].splitlines():
        yield line.strip()


def ray_status() -> str:
    """Return the text of `ray status` about the cluster that this process has joined; empty if it cannot be read."""
    import ray  # takes seconds to import

    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-m", "ray.scripts.scripts", "status", "--address", address]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_STATUS_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def wait_for_node(resources: Resources, lack: str, say: Callable[[str], None], check: Callable[[], None]) -> None:
    """Wait until the joined cluster has a node for a trial.

    The demand is a task that needs what a trial needs. So it ends with this process, however this process ends, and no
    node is kept for nobody. `check` is called between two looks, and ends the wait by an error.

    Raises:
        InputError: If the cluster has no autoscaler, or it starts no such node.
    """
    import ray  # takes seconds to import

    if not starts_nodes(ray_status()):
        raise InputError(lack)
    say(f"{lack}: waiting until its autoscaler has started a node that fits a trial")
    wanted = {"num_cpus": resources.cpus_per_trial, "num_gpus": resources.gpus_per_trial}
    there, last_seen = ray.remote(_nothing).options(**wanted).remote(), time.monotonic()
    while not ray.wait([there], timeout=_EVERY)[0]:
        check()
        if on_its_way(ray_status()):
            last_seen = time.monotonic()
        elif time.monotonic() - last_seen > _PATIENCE:
            ray.cancel(there)
            raise InputError(f"{lack}, and its autoscaler starts no node that fits a trial")


def _nothing() -> None:
    """Do nothing, on a node that fits a trial."""
