"""The number of trials of a run that run at the same time."""

from __future__ import annotations

import torch

from tausearch.cluster import local_cpus, trials_that_fit
from tausearch.runs import RunSpec
from tausearch.studies import learns


def concurrent_trials(spec: RunSpec, cpus: float, gpus: float) -> int:
    """Return the number of concurrent trials that the user asked for, else the number that fits the CPUs and GPUs.

    If the sampler learns from finished trials, at most a quarter of all trials run at a time by default. With all of
    them at once it would be a random search.
    """
    if spec.resources.max_concurrent_trials is not None:
        return spec.resources.max_concurrent_trials
    fits = min(trials_that_fit(spec.resources, cpus, gpus), spec.trials)
    return min(fits, max(2, spec.trials // 4)) if learns(spec) else fits


def known_concurrent_trials(spec: RunSpec, *, on_cluster: bool) -> int | None:
    """Return the number of concurrent trials of a run; None if it depends on a cluster that is not joined yet."""
    if on_cluster and spec.resources.max_concurrent_trials is None:
        return None
    return min(concurrent_trials(spec, local_cpus(), torch.cuda.device_count()), spec.trials)
