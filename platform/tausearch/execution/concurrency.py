"""The number of trials of a run that run at the same time."""

from __future__ import annotations

from tausearch.cluster import gpus_here, local_cpus, trials_that_fit
from tausearch.runs import PartsSpec, RunSpec, parts_of
from tausearch.studies import learns


def concurrent_trials(spec: RunSpec, cpus: float, gpus: float) -> int:
    """Return the number of concurrent trials that the user asked for, else the number that fits the CPUs and GPUs.

    If the sampler learns from finished trials, at most a quarter of all trials run at a time by default. With all of
    them at once it would be a random search. On several benchmarks, what is returned counts parts.
    """
    if spec.resources.max_concurrent_trials is not None:
        return spec.resources.max_concurrent_trials
    fits = min(trials_that_fit(spec.resources, cpus, gpus), spec.trials)
    parent, parts = (spec.parent_spec, spec.side_by_side) if isinstance(spec, PartsSpec) else (spec, 1)
    return min(fits, max(2, parent.trials // 4) * parts) if learns(parent) else fits


def known_concurrent_trials(spec: RunSpec, *, on_cluster: bool) -> int | None:
    """Return the number of concurrent trials of a run; None if it depends on a cluster that is not joined yet."""
    unknown = on_cluster and spec.resources.max_concurrent_trials is None
    return None if unknown else concurrent_trials_here(spec)


def concurrent_trials_here(spec: RunSpec) -> int:
    """Return the number of concurrent trials of a run on this machine."""
    spec = parts_of(spec) or spec
    return min(concurrent_trials(spec, local_cpus(), gpus_here()), spec.trials)
