"""What the process of a trial asks Ray for. The process imports this module, so it imports no more than Ray Tune."""

from __future__ import annotations

from typing import Any

from ray.tune import PlacementGroupFactory


def placement_of(config: dict[str, Any]) -> PlacementGroupFactory:
    """Return the CPUs and GPUs of a `TrialConfig`, given as a dictionary."""
    return PlacementGroupFactory([{"CPU": config["cpus_per_trial"], "GPU": config["gpus_per_trial"]}])
