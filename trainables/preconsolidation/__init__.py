"""Pre-consolidation: a trial's computations before fine-tuning, and the cache that shares them between trials.

Not here: the regularisers that use the Fisher, and the training of heads and task vectors (`methods.composable`).
"""

from __future__ import annotations

from trainables.preconsolidation.consolidation import (
    Consolidation as Consolidation,
    PreconsolidationConfig as PreconsolidationConfig,
)
from trainables.preconsolidation.preparation import Basis as Basis, Preparation as Preparation
from trainables.preconsolidation.provider import Preconsolidator as Preconsolidator, Preparer as Preparer
