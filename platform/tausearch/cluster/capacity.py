"""How much there is to compute with, and how many trials of a run it takes at a time."""

from __future__ import annotations

import os

from tausearch.runs import Resources, RunSpec


def local_cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


def trials_that_fit(resources: Resources, cpus: float, gpus: float) -> int:
    """Return how many trials so many CPUs and GPUs can run at a time, at least one."""
    fits = int(cpus // resources.cpus_per_trial)
    if resources.gpus_per_trial:
        fits = min(fits, int(gpus) * round(1 / resources.gpus_per_trial))
    return max(1, fits)


def max_concurrent_trials(spec: RunSpec, cpus: float, gpus: float) -> int:
    """Return how many trials of a run to have at a time: what was asked for, else what so many CPUs and GPUs fit.

    An algorithm that learns from trials that have ended is asked for a quarter of them at a time at most, unless more
    was asked for: with all of them at once it would be a random search.
    """
    if spec.resources.concurrent is not None:
        return spec.resources.concurrent
    fits = min(trials_that_fit(spec.resources, cpus, gpus), spec.trials)
    return min(fits, max(2, spec.trials // 4)) if spec.learns else fits


def capacity_here() -> tuple[float, float]:
    """Return how many CPUs and GPUs the Ray has that this process is connected to, now: nodes join and go."""
    import ray  # takes seconds to import

    has = ray.cluster_resources()
    return has.get("CPU", 1), has.get("GPU", 0)
