"""The two parts of a dataset; only a final run may read the test part."""

from __future__ import annotations

from typing import Literal

Part = Literal["train", "test"]
PARTS: tuple[Part, ...] = ("train", "test")
