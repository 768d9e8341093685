"""Start or join Ray."""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from tempfile import gettempdir
from typing import Any
from unittest import mock

from tausearch.cluster.capacity import cluster_capacity, gpus_here, lack_of, local_cpus
from tausearch.cluster.importing import uncollected
from tausearch.cluster.waiting import ray_status, starts_nodes, wait_for_node
from tausearch.runs import Resources
from trainables.errors import InputError

# Ray, Tune and their processes read these when they start, not when they are imported. Trials keep the user's working
# folder, Tune writes no result files, and Ray reports no usage.
_ENVIRONMENT = {
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # `interruptible` has its own handler
    "TUNE_MAX_PENDING_TRIALS_PG": "1000",  # with Tune's 1, processes start one by one; `TuneSearcher` is the limit
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",  # Tune's own snapshots are never read
    "RAY_prestart_worker_first_driver": "0",  # `_prestarted` says whether Ray starts processes in advance
    # A process asks for the raylet, which is starting, every tenth of a second in place of every second, for 30 s.
    "RAY_raylet_client_connect_timeout_milliseconds": "100",
    "RAY_raylet_client_num_connect_attempts": "300",
}

# Methods of Ray's node that start processes which a Ray for one driver does not need: the autoscaler has no node to
# start, nobody reads the lines of the log monitor, and without the dashboard its process would report usage alone. Each
# imports Ray while the processes of trials import torch. The autoscaler does not end when it is asked to, so Ray's end
# would take a second longer.
_NEEDLESS = ("start_monitor", "start_log_monitor", "start_api_server")

Say = Callable[[str], None]
_LACK = "a trial needs {wanted:g} {kind}, the cluster has {has:g} in all"
_MAX_MESSAGE = 200  # characters of Ray's error
_PRIVATE = "tausearch_own"  # resource that marks a Ray which ends with its run


class _NoFolders(list[str]):
    """An empty list in place of Ray's list of driver folders that go first on every worker's `sys.path`.

    Ray would add the working folder. A file there with the name of an optional package would run in every worker.
    """

    def extend(self, folders: Iterable[str]) -> None:
        """Add nothing."""


class AddressFault(str):
    """The message of a mistake in `--address`, which is given to a command and belongs to no cell of a campaign."""


def require_reachable(address: str) -> None:
    """Connect to the address of a cluster once, or refuse it: Ray itself would try for minutes."""
    if address == "auto":
        return  # Ray looks on this machine, and fails at once if there is no cluster
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InputError(AddressFault(f"--address must be auto, HOST:PORT or ray://HOST:PORT, got {address!r}"))
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, UnicodeError) as error:  # the latter for a host with two dots, or of too many letters
        why = getattr(error, "strerror", None) or error
        raise InputError(AddressFault(f"--address {address}: no Ray cluster answers there ({why})")) from error


def cluster_summary() -> str:
    """Return address, nodes, CPUs and GPUs of the cluster that this process has joined, in words."""
    import ray  # takes seconds to import

    alive = [node for node in ray.nodes() if node["Alive"]]
    total = ray.cluster_resources()
    has = f"nodes: {len(alive)}, CPUs: {total.get('CPU', 0):g}"
    if total.get("GPU"):
        has += f", GPUs: {total['GPU']:g}"
    return f"joined the Ray at {ray.get_runtime_context().gcs_address} ({has})"


def _leave() -> None:
    """Disconnect from Ray while the garbage collector is off.

    Tune leaves handles of actors and objects in reference cycles. If another thread collects a handle during Ray's
    shutdown, Ray ends the whole process ("accesses the Ray's worker after it is shutdown"). The handles are therefore
    collected before.
    """
    import ray  # takes seconds to import

    gc.collect()
    with uncollected():
        ray.shutdown()


@contextmanager
def _prestarted(kinds: Sequence[Resources], processes: int) -> Iterator[None]:
    """Have a Ray that is started in the block start the processes of trials before there is a trial.

    Ray starts one for each CPU. Each imports torch, so none may be one too many. A variable that is set already stays.
    """
    fills = all(not each.gpus_per_trial and each.cpus_per_trial == 1 for each in kinds)
    ahead = bool(kinds) and fills and processes >= local_cpus()
    values = {"RAY_enable_worker_prestart": "1", "RAY_preload_python_modules": "tausearch.cluster.preload"}
    wanted = values if ahead else {"RAY_enable_worker_prestart": "0"}
    ours = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


@contextmanager
def _needed_alone() -> Iterator[None]:
    """Have a Ray that is started in the block start none of the processes that it does not need."""
    from ray._private.node import Node  # takes seconds to import

    def nothing(node: Node, **options: object) -> None: ...

    without: dict[str, Any] = dict.fromkeys(_NEEDLESS, nothing)
    with mock.patch.multiple(Node, **without):
        yield


def _refused(address: str | None, error: Exception) -> str:
    """Return the message for any error of Ray's start, or of joining a cluster."""
    import ray  # takes seconds to import

    message = " ".join(str(error).split())
    if address is None:
        return f"Ray cannot be started on this machine ({message[:_MAX_MESSAGE]}); its logs: {gettempdir()}/ray"
    if "Version mismatch" in message:  # Ray's own comparison of its version and Python's
        return AddressFault(f"--address {address}: {message}")
    hint = ""
    if isinstance(error, ConnectionError | ray.exceptions.AuthenticationError):
        hint = "; where it asks for a token, copy its ~/.ray/auth_token to yours and set RAY_AUTH_MODE=token"
    why = message.partition(". ")[0]
    return AddressFault(f"--address {address}: no Ray cluster can be joined there ({why}){hint}")


@contextmanager
def ray_session(
    kinds: Sequence[Resources],  # what a trial of each kind needs; none for a look at the cluster, however small it is
    address: str | None = None,
    *,
    processes: int = 0,  # the most trials at a time; a Ray of our own starts them at once if each CPU gets one
    say: Say | None = None,  # shows a line to the user; where given, a node that an autoscaler can start is waited for
    check: Callable[[], None] = lambda: None,  # called while a node is waited for; an error of it ends the wait
    quiet: bool = False,  # whether Ray's warnings are not printed
) -> Iterator[None]:
    """Start Ray, or join the cluster at `address`, while the block runs.

    Raises:
        InputError: If Ray cannot be started, or the cluster does not answer, has another version, belongs to another
            run, or is too small for a single trial of a kind.
    """
    os.environ.update({name: value for name, value in _ENVIRONMENT.items() if name not in os.environ})
    import ray  # takes seconds to import
    from ray.job_config import JobConfig

    job = JobConfig()
    job._py_driver_sys_path = _NoFolders()
    try:
        with ExitStack() as stack:
            if quiet:
                stack.enter_context(_unheard())
            if address is None:
                stack.enter_context(_prestarted(kinds, processes))
                stack.enter_context(_needed_alone())
            ray.init(
                address=address or "local",
                num_cpus=None if address else max([local_cpus(), *(each.cpus_per_trial for each in kinds)]),
                num_gpus=None if address else gpus_here() or None,  # as many as the trials were planned for
                resources=None if address else {_PRIVATE: 1},
                include_dashboard=False,
                log_to_driver=False,
                logging_level="ERROR" if quiet else "WARNING",
                job_config=job,
            )
    except Exception as error:
        raise InputError(_refused(address, error)) from error
    try:
        if address and _PRIVATE in ray.cluster_resources():
            raise InputError(
                AddressFault(
                    f"--address {address}: the Ray that answers is another run's own and ends with it; start one that"
                    " stays with: ray start --head"
                )
            )
        for each in kinds:
            _require_room(each, None if address is None else say, check)
        yield
    finally:
        _leave()


@contextmanager
def _unheard() -> Iterator[None]:
    """Send nowhere what is written to stderr: without a token Ray's C++ parts write a line there every second."""
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        for each in (saved, nowhere):
            os.close(each)


def _require_room(resources: Resources, say: Say | None, check: Callable[[], None]) -> None:
    """Refuse a cluster that is too small for a trial, unless its autoscaler can start a node and `say` is given."""
    import ray  # takes seconds to import

    if lack := lack_of(resources, ray.cluster_resources(), _LACK):
        if say is None:
            raise InputError(lack)
        wait_for_node(resources, lack, say, check)


@contextmanager
def temporary_connection(address: str) -> Iterator[None]:
    """Join a cluster while the block runs, unless this process has joined one; refuse one that cannot be joined."""
    import ray  # takes seconds to import

    if ray.is_initialized():
        yield
        return
    require_reachable(address)
    with ray_session((), address, quiet=True):  # this is before the run has a log for Ray's warnings
        yield


def require_room_at(address: str | None, resources: Resources) -> None:
    """Refuse a cluster that is too small for a trial and has no autoscaler. It is joined for a moment."""
    if address is None:
        return
    import ray  # takes seconds to import

    with temporary_connection(address):
        lack = lack_of(resources, ray.cluster_resources(), _LACK)
        if lack and not starts_nodes(ray_status()):
            raise InputError(lack)


def gpus_at(address: str | None) -> float:
    """Return the GPUs of this machine, or of the Ray cluster at an address, which is joined for a moment."""
    if address is None:
        return gpus_here()
    with temporary_connection(address):
        return cluster_capacity()[1]
