"""What a backbone reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InputSpec:
    """What a backbone reads: images `(channels, size, size)`, scaled to [0, 1], minus `mean`, divided by `std`."""

    channels: int
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
