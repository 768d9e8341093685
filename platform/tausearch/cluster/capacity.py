"""CPUs and GPUs, and the number of concurrent trials that they allow."""

from __future__ import annotations

import os

from tausearch.runs import Resources, RunSpec


def local_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def trials_that_fit(resources: Resources, cpus: float, gpus: float) -> int:
    """Return the number of trials that fit the CPUs and GPUs at a time, at least one."""
    fits = int(cpus // resources.cpus_per_trial)
    if resources.gpus_per_trial:
        fits = min(fits, int(gpus) * round(1 / resources.gpus_per_trial))
    return max(1, fits)


def concurrent_trials(spec: RunSpec, cpus: float, gpus: float) -> int:
    """Return the number of concurrent trials that the user asked for, else the number that fits the CPUs and GPUs.

    If the sampler learns from finished trials, at most a quarter of all trials run at a time by default. With all of
    them at once it would be a random search.
    """
    if spec.resources.max_concurrent_trials is not None:
        return spec.resources.max_concurrent_trials
    fits = min(trials_that_fit(spec.resources, cpus, gpus), spec.trials)
    return min(fits, max(2, spec.trials // 4)) if spec.learns else fits


def capacity_here() -> tuple[float, float]:
    """Return the CPUs and GPUs of the connected Ray cluster now; nodes can join and leave."""
    import ray  # takes seconds to import

    total = ray.cluster_resources()
    return total.get("CPU", 1), total.get("GPU", 0)
