from .capacity import capacity_here, concurrent_trials, local_cpus, trials_that_fit
from .head_watch import head_watched
from .pilot import with_measured_share
from .preflight import require_fit_nodes
from .raylet_watch import raylet_watched
from .resources import plan_resources, require_gpu, slots_of
from .session import joined, ray_session, require_reachable

__all__ = [
    "capacity_here",
    "head_watched",
    "joined",
    "local_cpus",
    "concurrent_trials",
    "plan_resources",
    "ray_session",
    "raylet_watched",
    "require_fit_nodes",
    "require_gpu",
    "require_reachable",
    "slots_of",
    "trials_that_fit",
    "with_measured_share",
]
