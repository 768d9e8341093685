"""Final runs beside the paper's results, and hyperparameters judged where they were not tuned."""

from __future__ import annotations

from tausearch.compare.comparison import Comparison, Row, compare
from tausearch.compare.runs import FinalRun, Score, read_final_runs
from tausearch.compare.transfer import TransferCell, TransferMatrix, transfer

__all__ = [
    "Comparison",
    "FinalRun",
    "Row",
    "Score",
    "TransferCell",
    "TransferMatrix",
    "compare",
    "read_final_runs",
    "transfer",
]
