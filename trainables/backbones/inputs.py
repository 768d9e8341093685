"""The input and the shape of a backbone, and the name of the embedded one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EMBEDDED = "glyph_vit"
SMALL = "vit_tiny_patch16_224.augreg_in21k"  # the smallest of timm's that read 224 x 224 colour
Tokens = Literal["class", "all"]  # the class token alone, or all tokens
AttentionKind = Literal["fused", "plain"]  # torch's kernel, or products written out


@dataclass(frozen=True)
class InputSpec:
    """The images that a backbone reads: `(channels, size, size)`, scaled to [0, 1], minus `mean`, divided by `std`."""

    channels: int
    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Shape:
    """The size of a ViT, known without its weights."""

    width: int  # d, of tokens and features
    depth: int  # number of blocks
    parameters: int  # number of weights, without a classifier
    closed: str | None = None  # why `TokenViT` cannot open it, in a few words; None if it can
