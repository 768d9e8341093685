"""Pre-consolidation: everything a trial computes before fine-tuning, and the store that shares it between trials."""

from __future__ import annotations

from trainables.preconsolidation.consolidation import Consolidation, PreconsolidationConfig
from trainables.preconsolidation.provider import Preconsolidator

__all__ = ["Consolidation", "PreconsolidationConfig", "Preconsolidator"]
