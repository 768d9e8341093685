"""What needs a GPU; without one each of these says so and measures nothing."""

from __future__ import annotations

from typing import Any

NO_GPU: list[dict[str, Any]] = [{"on a GPU": "none: this machine has no GPU"}]
