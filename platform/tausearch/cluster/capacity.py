"""CPUs and GPUs, and the number of trials that fit them."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tausearch.runs import Resources

_CGROUP = Path("/sys/fs/cgroup")  # of a container, its own


def local_cpus() -> int:
    """Return the number of whole CPUs that this process may use; a container's limit of their time counts."""
    return max(1, int(min(cpus_to_run_on(), _cpu_limit())))


def cpus_to_run_on() -> int:
    """Return the number of CPUs that threads of this process may run on; a limit of their time may allow less."""
    return len(os.sched_getaffinity(0))


def _cpu_limit() -> float:
    """Return how many CPUs a container may use at a time (cgroup v2, else v1); infinite without a limit."""
    with suppress(OSError, ValueError):  # "max" is no number
        quota, period = map(int, (_CGROUP / "cpu.max").read_text(encoding="ascii").split())
        return quota / period
    with suppress(OSError, ValueError):
        quota, period = (int((_CGROUP / f"cpu/cpu.cfs_{of}_us").read_text()) for of in ("quota", "period"))
        return quota / period if quota > 0 else math.inf
    return math.inf


def gpus_here() -> int:
    """Return the number of GPUs that torch can use on this machine."""
    import torch  # takes seconds to import

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def trials_that_fit(resources: Resources, cpus: float, gpus: float) -> int:
    """Return the number of trials that fit the CPUs and GPUs at a time, at least one."""
    fits = int(cpus // resources.cpus_per_trial)
    if resources.gpus_per_trial:
        fits = min(fits, int(gpus) * round(1 / resources.gpus_per_trial))
    return max(1, fits)


def lack_of(resources: Resources, has: Mapping[str, float], words: str) -> str | None:
    """Say in `words` what a node or cluster has too little of for a trial; None if it has enough."""
    for kind, wanted in (("CPU", resources.cpus_per_trial), ("GPU", resources.gpus_per_trial)):
        if has.get(kind, 0) < wanted:
            return words.format(kind=kind, wanted=wanted, has=has.get(kind, 0))
    return None


def cluster_capacity() -> tuple[float, float]:
    """Return the CPUs and GPUs of the connected Ray cluster now; nodes can join and leave."""
    import ray  # takes seconds to import

    total = ray.cluster_resources()
    return total.get("CPU", 1), total.get("GPU", 0)
