from .capacity import capacity_here, gpus_here, local_cpus, trials_that_fit
from .devices import GpusAt, asked_once, continued_resources, kept, may_use_gpu, measured, placed, require_pilot
from .importing import uncollected
from .pilot import first_rows, with_measured_share
from .placement import placement_of
from .precisions import ASKED_PRECISIONS, Bf16At, bf16_at, precision_to_plan, require_cpu_has
from .preflight import nodes_checked
from .resources import plan_resources
from .session import AddressFault, gpus_at, joined, ray_session, require_reachable, require_room_at
from .watches import head_watched, nodes_watched, raylet_watched

__all__ = [
    "ASKED_PRECISIONS",
    "AddressFault",
    "Bf16At",
    "GpusAt",
    "asked_once",
    "bf16_at",
    "continued_resources",
    "kept",
    "may_use_gpu",
    "measured",
    "placed",
    "placement_of",
    "capacity_here",
    "first_rows",
    "gpus_at",
    "gpus_here",
    "head_watched",
    "joined",
    "local_cpus",
    "nodes_checked",
    "nodes_watched",
    "plan_resources",
    "precision_to_plan",
    "ray_session",
    "raylet_watched",
    "require_cpu_has",
    "require_pilot",
    "require_reachable",
    "require_room_at",
    "trials_that_fit",
    "uncollected",
    "with_measured_share",
]
