"""A merging rule that keeps the largest entries of whole task vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from trainables.composition import Merging, Parameter


class Largest:
    """Keep the same share of the entries of each task vector, wherever the largest of them lie."""

    parameters: ClassVar[Mapping[str, Parameter]] = {"share": Parameter(0.2, low=0, high=1, low_excluded=True)}

    def merge(self, merging: Merging) -> dict[str, Tensor]:
        """Return the weighted sum of the kept entries."""
        merged: dict[str, Tensor] = {}
        for tau, weight in zip(merging.taus, merging.weights, strict=True):
            entries = torch.cat([tau[name].flatten().abs() for name in merging.names])
            kept = max(1, round(merging.parameters["share"] * len(entries)))
            least = entries.kthvalue(len(entries) - kept + 1).values
            for name in merging.names:
                part = weight * tau[name] * (tau[name].abs() >= least)
                merged[name] = merged[name] + part if name in merged else part
        return merged
