from .capacity import (
    capacity_here as capacity_here,
    gpus_here as gpus_here,
    local_cpus as local_cpus,
    trials_that_fit as trials_that_fit,
)
from .devices import (
    GpusAt as GpusAt,
    asked_once as asked_once,
    continued_resources as continued_resources,
    may_use_gpu as may_use_gpu,
    measured as measured,
    placed as placed,
    require_pilot as require_pilot,
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
    gpus_at as gpus_at,
    joined as joined,
    ray_session as ray_session,
    require_reachable as require_reachable,
    require_room_at as require_room_at,
)
from .watches import head_watched as head_watched, nodes_watched as nodes_watched, raylet_watched as raylet_watched
