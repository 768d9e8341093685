"""Pre-consolidation: a trial's computations before fine-tuning, and the cache that shares them between trials.

Not here: the regularisers that use the Fisher, and the training of heads and task vectors (`methods.composable`).
"""

from __future__ import annotations

from trainables.preconsolidation.cache import Cache
from trainables.preconsolidation.consolidation import Consolidation, PreconsolidationConfig
from trainables.preconsolidation.preparation import Basis, Preparation
from trainables.preconsolidation.provider import Preconsolidator, Preparer

__all__ = [
    "Basis",
    "Cache",
    "Consolidation",
    "PreconsolidationConfig",
    "Preconsolidator",
    "Preparation",
    "Preparer",
]
