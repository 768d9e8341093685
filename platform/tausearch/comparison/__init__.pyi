from .command import FORMS, Form, show_comparison, show_transfer
from .rows import Comparison, ComparisonRow, compare
from .runs import FinalRun, read_final_runs
from .transferring import TransferCell, TransferMatrix, transfer

__all__ = [
    "Comparison",
    "ComparisonRow",
    "FORMS",
    "FinalRun",
    "Form",
    "TransferCell",
    "TransferMatrix",
    "compare",
    "read_final_runs",
    "show_comparison",
    "show_transfer",
    "transfer",
]
