"""Check the resources of a trial against those of the machine."""

from __future__ import annotations

from checked_input.names import counted
from checked_input.text_files import shown
from tausearch.cluster.capacity import cpus_to_run_on, gpus_here, local_cpus, trials_that_fit
from tausearch.cluster.session import require_reachable
from tausearch.runs import Resources
from trainables.errors import InputError


def require_gpu(wish: str) -> None:
    """Raise an `InputError` that begins with `wish` if this machine has no GPU."""
    if not gpus_here():
        raise InputError(f"{wish}: this machine has no GPU")


def plan_resources(
    cpus_per_trial: int, gpus_per_trial: float, max_concurrent_trials: int | None, address: str | None
) -> Resources:
    """Return the resources of a trial, with no more at a time than fit this machine; refuse what cannot be had."""
    if gpus_per_trial not in (0, 1) and gpus_per_trial not in [1 / k for k in range(2, 65)]:
        raise InputError(
            f"--gpus-per-trial must be auto, 0, 1 or 1/k (such as 0.5, 0.25, 0.2, 0.125), got {shown(gpus_per_trial)}"
        )
    if address is not None:
        require_reachable(address)
    else:  # the resources of a cluster are known once it is joined
        if gpus_per_trial:
            require_gpu(f"--gpus-per-trial {gpus_per_trial:g}")
        # Within a limit of CPU time its threads take turns.
        if cpus_per_trial > (most := cpus_to_run_on()):
            raise InputError(f"--cpus-per-trial {cpus_per_trial}: this machine has {counted(most, 'CPU')}")
    resources = Resources(
        cpus_per_trial=cpus_per_trial, gpus_per_trial=gpus_per_trial, max_concurrent_trials=max_concurrent_trials
    )
    return at_most_what_fits(resources, address)


def at_most_what_fits(resources: Resources, address: str | None) -> Resources:
    """Return resources with no more trials at a time than fit this machine; a cluster is not looked at."""
    at_once = resources.max_concurrent_trials
    if address is not None or at_once is None:
        return resources
    fits = trials_that_fit(resources, local_cpus(), gpus_here())
    return resources.model_copy(update={"max_concurrent_trials": min(at_once, fits)})
