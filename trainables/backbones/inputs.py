"""The images that a backbone reads: their shape and scale."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InputSpec:
    """The images that a backbone reads: `(channels, size, size)`, scaled to [0, 1], minus `mean`, divided by `std`."""

    channels: int
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
