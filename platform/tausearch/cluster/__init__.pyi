from .capacity import (
    cluster_capacity as cluster_capacity,
    gpus_here as gpus_here,
    local_cpus as local_cpus,
    trials_that_fit as trials_that_fit,
)
from .devices import (
    GpusAt as GpusAt,
    asked_once as asked_once,
    continued_resources as continued_resources,
    may_use_gpu as may_use_gpu,
    require_pilot as require_pilot,
    with_device as with_device,
    with_measured_gpu_share as with_measured_gpu_share,
)
from .importing import uncollected as uncollected
from .pilot import first_rows as first_rows
from .placement import placement_of as placement_of
from .precisions import (
    ASKED_PRECISIONS as ASKED_PRECISIONS,
    Bf16At as Bf16At,
    bf16_at as bf16_at,
    precision_to_plan as precision_to_plan,
    require_cpu_has as require_cpu_has,
)
from .preflight import nodes_checked as nodes_checked
from .resources import plan_resources as plan_resources
from .session import (
    AddressFault as AddressFault,
    cluster_summary as cluster_summary,
    gpus_at as gpus_at,
    ray_session as ray_session,
    require_reachable as require_reachable,
    require_room_at as require_room_at,
)
from .watches import head_watched as head_watched, nodes_watched as nodes_watched, raylet_watched as raylet_watched
