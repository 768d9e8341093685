"""The two parts of a dataset: what trains, and what only a final run may look at."""

from __future__ import annotations

from typing import Literal

Part = Literal["train", "test"]
PARTS: tuple[Part, ...] = ("train", "test")
