"""Start or join Ray, quietly, and know what it has."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tausearch.spec import Resources, RunSpec
from trainables.errors import InputError

# Read by Ray when it is imported or started. Working folders stay the user's, results are ours to keep, and nobody is
# told about usage.
_ENVIRONMENT = {
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # `runner` has its own
    "TUNE_MAX_PENDING_TRIALS_PG": "1000",  # `TuneSearcher` says how many; with Tune's 1, processes start one by one
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",  # Tune's own snapshots are never read
    # Ray would start one Python process per CPU in advance, and wait for them. Tune gives its processes an environment
    # of their own, so that none of those is ever used.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
}

_PRIVATE = "tausearch_own"  # a resource by which a Ray of our own is known to others


def local_cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


def fit_at_once(resources: Resources, cpus: float, gpus: float) -> int:
    """Return how many trials so many CPUs and GPUs can run at a time, at least one."""
    fits = int(cpus // resources.cpus_per_trial)
    if resources.gpus_per_trial:
        fits = min(fits, int(gpus) * round(1 / resources.gpus_per_trial))
    return max(1, fits)


def at_once(spec: RunSpec, cpus: float, gpus: float) -> int:
    """Return how many trials of a run to have at a time: what was asked for, else what so many CPUs and GPUs fit.

    An algorithm that learns from trials that have ended is asked for a quarter of them at a time at most, unless more
    was asked for: with all of them at once it would be a random search.
    """
    if spec.resources.concurrent is not None:
        return spec.resources.concurrent
    fits = min(fit_at_once(spec.resources, cpus, gpus), spec.trials)
    learns = spec.purpose == "search" and spec.algorithm in ("tpe", "gp")
    return min(fits, max(2, spec.trials // 4)) if learns else fits


def at_once_here(spec: RunSpec) -> int:
    """Return the same for the Ray that this process is connected to, as it is now: nodes join and are lost."""
    import ray  # noqa: PLC0415  # after the environment is set

    has = ray.cluster_resources()
    return at_once(spec, has.get("CPU", 1), has.get("GPU", 0))


def require_reachable(address: str) -> None:
    """Make sure that something listens where a cluster is said to be: Ray itself would try for minutes.

    Raises:
        InputError: If not, or if it is no address.
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


def _leave() -> None:
    """Disconnect from Ray.

    Tune leaves handles of actors and objects behind in reference cycles. If the collector finds one of them, from
    another thread, in the middle of Ray's shutdown, Ray ends the whole process ("accesses the Ray's worker after it is
    shutdown"). So they are collected before, and none is while it shuts down.
    """
    import ray  # noqa: PLC0415  # after the environment is set

    gc.collect()
    gc.disable()
    try:
        ray.shutdown()
    finally:
        gc.enable()


@contextmanager
def ray_session(resources: Resources, address: str | None = None) -> Iterator[None]:
    """Start a Ray of our own, or join the one at `address`, for as long as the block runs.

    Raises:
        InputError: If no Ray answers at the address, it is another version, another run's own, or too small for a
            single trial.
        RuntimeError: Whatever else Ray has to say.
    """
    os.environ.update({name: value for name, value in _ENVIRONMENT.items() if name not in os.environ})
    import ray  # noqa: PLC0415  # after the environment is set

    try:
        ray.init(
            address=address or "local",
            num_cpus=None if address else max(local_cpus(), resources.cpus_per_trial),
            resources=None if address else {_PRIVATE: 1},
            include_dashboard=False,
            log_to_driver=False,
            logging_level="WARNING",
        )
    except ConnectionError as error:
        said = " ".join(str(error).split())
        hint = "RAY_AUTH_MODE=token where one is asked for"
        raise InputError(f"--address {address}: no Ray cluster can be joined there ({said}); {hint}") from error
    except RuntimeError as error:  # Ray's own comparison of its version and Python's
        if "Version mismatch" not in str(error):
            raise
        raise InputError(f"--address {address}: {' '.join(str(error).split())}") from error
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
