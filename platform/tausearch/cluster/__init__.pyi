from .capacity import capacity_here, local_cpus, trials_that_fit
from .pilot import first_rows, with_measured_share
from .preflight import require_fit_nodes
from .resources import plan_resources, require_gpu
from .session import joined, ray_session, require_reachable
from .watches import head_watched, raylet_watched

__all__ = [
    "capacity_here",
    "first_rows",
    "head_watched",
    "joined",
    "local_cpus",
    "plan_resources",
    "ray_session",
    "raylet_watched",
    "require_fit_nodes",
    "require_gpu",
    "require_reachable",
    "trials_that_fit",
    "with_measured_share",
]
