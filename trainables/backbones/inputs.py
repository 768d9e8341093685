"""The input and the shape of a backbone, and the name of the embedded one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

EMBEDDED = "glyph_vit"
SMALL = "vit_tiny_patch16_224.augreg_in21k"  # the smallest of timm's that read 224 x 224 colour
LARGEST_SIDE = 4096  # pixels; no ViT reads larger images
Tokens = Literal["class", "all"]  # the class token alone, or all tokens
AttentionKind = Literal["fused", "plain"]  # torch's kernel, or products written out


@dataclass(frozen=True)
class InputSpec:
    """The images that a backbone reads: `(channels, size, size)`, scaled to [0, 1], minus `mean`, divided by `std`."""

    channels: int
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def fault(self) -> str | None:
        """What is wrong with the values, which code of the user may have given; None if nothing is."""
        if self.channels not in (1, 3):
            return f"channels must be 1 or 3, got {self.channels!r}"
        if not isinstance(self.size, int) or not 1 <= self.size <= LARGEST_SIDE:
            return f"size must be a whole number from 1 to {LARGEST_SIDE}, got {self.size!r}"
        for name, values in (("mean", self.mean), ("std", self.std)):
            numbers = isinstance(values, tuple) and all(isinstance(each, float | int) for each in values)
            if not numbers or len(values) != self.channels or not all(map(math.isfinite, values)):
                return f"{name} must be a tuple of {self.channels} numbers, one for each channel, got {values!r}"
        return None if all(each > 0 for each in self.std) else f"std must be above 0, got {self.std!r}"


@dataclass(frozen=True)
class Shape:
    """The size of a ViT, known without its weights."""

    width: int  # d, of tokens and features
    depth: int  # number of blocks
    parameters: int  # number of weights, without a classifier
    closed: str | None = None  # why `TokenViT` cannot open it, in a few words; None if it can
    blocks: bool = True  # whether it has `blocks`, in which methods of tangents find its layers
