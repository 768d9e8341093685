"""The networks that evaluate compositions, by the kind of task vectors."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from trainables.backbones import Backbone
from trainables.composition.networks.displaced import ComposedNetwork
from trainables.composition.networks.tangents import TangentNetwork
from trainables.composition.saved import SavedVector
from trainables.config import Precision
from trainables.errors import InputError
from trainables.task_vectors import Parametrisation

NETWORKS: dict[Parametrisation, type[ComposedNetwork]] = {
    **dict.fromkeys(("full", "lora", "ia3"), ComposedNetwork),  # all displace weights
    "tangent": TangentNetwork,
}


def network_for(
    vectors: Iterable[SavedVector], backbone: Backbone, device: torch.device, precision: Precision = "fp32"
) -> ComposedNetwork:
    """Return a new network that evaluates compositions of the given task vectors.

    Raises:
        InputError: If the vectors need different networks.
    """
    kinds = {vector.parametrisation: NETWORKS[vector.parametrisation] for vector in vectors}
    if len(set(kinds.values())) > 1:
        raise InputError(f"task vectors of the kinds {', '.join(kinds)} cannot be composed with each other")
    return next(iter(kinds.values()))(backbone, device, precision)
