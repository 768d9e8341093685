from .page import cell_link, write_report
from .pairs import cell_of, cells_of
from .views import ReportCell

__all__ = [
    "ReportCell",
    "cell_of",
    "cells_of",
    "cell_link",
    "write_report",
]
