"""Methods: incremental learners behind one contract, and the registry of their names.

Not here: the statistics of a task before its training (`preconsolidation`), and the loop over tasks (`sequence`).
"""

from __future__ import annotations

from trainables.methods import systems  # noqa: F401  # importing it registers every method
from trainables.methods.contract import (
    EULER_FACTOR,
    Capabilities,
    Composable,
    Context,
    Curved,
    ExtraMetric,
    Method,
    Scenario,
)
from trainables.methods.entry import METHODS, MethodEntry
from trainables.methods.registry import get_method, known_method

__all__ = [
    "EULER_FACTOR",
    "METHODS",
    "Capabilities",
    "Composable",
    "Context",
    "Curved",
    "ExtraMetric",
    "Method",
    "MethodEntry",
    "Scenario",
    "get_method",
    "known_method",
]
