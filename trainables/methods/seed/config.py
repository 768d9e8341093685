"""Hyperparameters of SEED, and their limits."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from trainables.errors import InputError
from trainables.methods.contract import Scenario
from trainables.methods.hyperparameters import Positive, PositiveCount

COPIES_IN_TRAINING = 4  # gradients, two moments, and the frozen copy for the feature distance


@dataclass(frozen=True, kw_only=True)
class SEEDConfig:
    """Hyperparameters of SEED.

    Attributes:
        lr: Learning rate at the start; the schedule scales it.
        experts: K, the largest number of experts.
        features: S, the width of the bottleneck.
        alpha: Weight of the distance to the features before the task, against the cross-entropy.
        tau: Temperature of the softmax over log densities.
        flip: Whether Gaussians count every image a second time, mirrored left to right.
        clip: Norm at which the gradient is clipped.
        optimizer: "adamw", or "sgd" with momentum 0.9; no weight decay in either.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    lr: Positive
    experts: PositiveCount = 5
    features: PositiveCount = 64
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.99
    tau: Positive = 3.0
    flip: bool = True
    clip: Positive = 1.0
    optimizer: Literal["adamw", "sgd"] = "adamw"


def require_memory(config: SEEDConfig, scenario: Scenario) -> None:
    """Refuse a bottleneck wider than the backbone, and more experts than fit this machine's memory.

    Raises:
        InputError: If the bottleneck or the experts do not fit.
    """
    shape = scenario.backbone.shape
    if config.features > shape.width:
        raise InputError(f"seed: features must be at most the backbone's width, {shape.width}, got {config.features}")
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    allowed = there // (4 * shape.parameters) - COPIES_IN_TRAINING
    if min(config.experts, scenario.num_tasks) > allowed:
        raise InputError(
            f"seed: experts must be at most {max(allowed, 0)}, which fill this machine's {there / 2**30:.1f} GiB of"
            f" memory, got {config.experts}"
        )
