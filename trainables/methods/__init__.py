"""Methods: incremental learners behind one contract, and the registry of their names.

Not here: the statistics of a task before its training (`preconsolidation`), and the loop over tasks (`sequence`).
"""

from __future__ import annotations

from trainables.methods import systems  # noqa: F401  # importing it registers every method
from trainables.methods.contract import (
    EULER_FACTOR as EULER_FACTOR,
    Capabilities as Capabilities,
    Composable as Composable,
    Context as Context,
    Curved as Curved,
    ExtraMetric as ExtraMetric,
    Method as Method,
    Scenario as Scenario,
)
from trainables.methods.entry import METHODS as METHODS, MethodEntry as MethodEntry
from trainables.methods.registry import get_method as get_method, known_method as known_method
