"""What the process of a trial asks Ray for. The process imports this module, so it imports no more than Ray Tune."""

from __future__ import annotations

from functools import cache
from typing import Any

from ray.tune import PlacementGroupFactory


def placement_of(config: dict[str, Any]) -> PlacementGroupFactory:
    """Return the CPUs and GPUs of a `TrialConfig`, given as a dictionary."""
    return _placement(config["cpus_per_trial"], config["gpus_per_trial"])


@cache  # one object for all trials, which Tune keeps
def _placement(cpus: float, gpus: float) -> PlacementGroupFactory:
    return PlacementGroupFactory([{"CPU": cpus, "GPU": gpus}])
