"""What concerns GPUs. `kernels` and `reading` run on a CPU; without a GPU each of the others says so."""

from __future__ import annotations

from typing import Any

NO_GPU: list[dict[str, Any]] = [{"on a GPU": "none: this machine has no GPU"}]
