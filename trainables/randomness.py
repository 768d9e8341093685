"""Independent generators for every stage of a trial, from one seed. The global random state is never used."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # takes seconds to import, and `derive_seed` does not need it
    import torch


def derive_seed(seed: int, *labels: str | int) -> int:
    """Return a 63-bit seed that depends on `seed` and every label, the same on every platform and in every process."""
    digest = hashlib.sha256(repr((seed, *labels)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def make_generator(seed: int, *labels: str | int) -> torch.Generator:
    """Return a CPU generator for one stage, such as `make_generator(seed, "finetune", task)`.

    Each stage of each task has its own generator, so the draws of one stage never shift those of another. So
    pre-consolidation can be read from the cache, and a trial resumed at task t needs no saved random state.
    """
    import torch

    return torch.Generator().manual_seed(derive_seed(seed, *labels))
