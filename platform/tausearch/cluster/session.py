"""Start or join Ray, quietly, and know what it has."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import gettempdir

from tausearch.cluster.capacity import local_cpus
from tausearch.runs import Resources
from trainables.errors import InputError

# Read by Ray and Tune when they start, and by the processes that they start, never when they are imported. Working
# folders stay the user's, results are ours to keep, and nobody is told about usage.
_ENVIRONMENT = {
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # `interruptible` has its own
    "TUNE_MAX_PENDING_TRIALS_PG": "1000",  # `TuneSearcher` says how many; with Tune's 1, processes start one by one
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",  # Tune's own snapshots are never read
    # Ray would start one Python process per CPU in advance, and wait for them. Tune gives its processes an environment
    # of their own, so that none of those is ever used.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
}

_LONGEST = 200  # letters of what Ray says
_PRIVATE = "tausearch_own"  # a resource by which a Ray of our own is known to others


class _NoFolders(list[str]):
    """Stands where Ray lists folders of the driver for the head of every worker's `sys.path`, and takes none.

    Ray lists the working folder: a file there with the name of an optional package would run in every worker.
    """

    def extend(self, folders: Iterable[str]) -> None:
        """Add nothing."""


def require_reachable(address: str) -> None:
    """Make sure that something listens where a cluster is said to be: Ray itself would try for minutes.

    Raises:
        InputError: If nothing listens there, or `address` is not an address.
    """
    if address == "auto":
        return  # Ray looks on this machine, and says at once if there is none
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise InputError(f"--address must be auto, HOST:PORT or ray://HOST:PORT, got {address!r}")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as error:
        raise InputError(f"--address {address}: no Ray cluster answers there ({error.strerror or error})") from error


def joined() -> str:
    """Say in a few words which Ray this process has joined: its address, nodes and CPUs."""
    import ray  # takes seconds to import

    alive = [node for node in ray.nodes() if node["Alive"]]
    cpus = ray.cluster_resources().get("CPU", 0)
    return f"joined the Ray at {ray.get_runtime_context().gcs_address} (nodes: {len(alive)}, CPUs: {cpus:g})"


def _leave() -> None:
    """Disconnect from Ray, safe from the garbage collector.

    Tune leaves handles of actors and objects behind in reference cycles. If the collector finds one of them, from
    another thread, in the middle of Ray's shutdown, Ray ends the whole process ("accesses the Ray's worker after it is
    shutdown"). So they are collected before, and none is while it shuts down.
    """
    import ray  # takes seconds to import

    gc.collect()
    gc.disable()
    try:
        ray.shutdown()
    finally:
        gc.enable()


def _refused(address: str | None, error: Exception) -> str:
    """Return what to say where Ray cannot be started or joined: it raises half a dozen kinds of errors."""
    import ray  # takes seconds to import

    said = " ".join(str(error).split())
    if address is None:
        return f"Ray cannot be started on this machine ({said[:_LONGEST]}); its logs: {gettempdir()}/ray"
    if "Version mismatch" in said:  # Ray's own comparison of its version and Python's
        return f"--address {address}: {said}"
    hint = ""
    if isinstance(error, ConnectionError | ray.exceptions.AuthenticationError):
        hint = "; where it asks for a token, copy its ~/.ray/auth_token to yours and set RAY_AUTH_MODE=token"
    return f"--address {address}: no Ray cluster can be joined there ({said.partition('. ')[0]}){hint}"


@contextmanager
def ray_session(resources: Resources, address: str | None = None) -> Iterator[None]:
    """Start a Ray of our own, or join the one at `address`, for as long as the block runs.

    Raises:
        InputError: If Ray cannot be started, none answers at the address, it is another version, another run's own, or
            too small for a single trial.
    """
    os.environ.update({name: value for name, value in _ENVIRONMENT.items() if name not in os.environ})
    import ray  # takes seconds to import
    from ray.job_config import JobConfig

    job = JobConfig()
    job._py_driver_sys_path = _NoFolders()
    try:
        ray.init(
            address=address or "local",
            num_cpus=None if address else max(local_cpus(), resources.cpus_per_trial),
            resources=None if address else {_PRIVATE: 1},
            include_dashboard=False,
            log_to_driver=False,
            logging_level="WARNING",
            job_config=job,
        )
    except Exception as error:
        raise InputError(_refused(address, error)) from error
    try:
        has = ray.cluster_resources()
        if address and _PRIVATE in has:
            raise InputError(
                f"--address {address}: the Ray that answers is another run's own and ends with it; start one that stays"
                " with: ray start --head"
            )
        for kind, wanted in (("CPU", resources.cpus_per_trial), ("GPU", resources.gpus_per_trial)):
            if wanted > has.get(kind, 0):
                raise InputError(f"a trial needs {wanted:g} {kind}, the cluster has {has.get(kind, 0):g} in all")
        yield
    finally:
        _leave()
