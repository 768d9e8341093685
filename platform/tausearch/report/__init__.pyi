from .page import cell_link, write_report
from .pairs import cell_of, cells_of
from .tables import AnyTable
from .views import ReportCell

__all__ = [
    "AnyTable",
    "ReportCell",
    "cell_of",
    "cells_of",
    "cell_link",
    "write_report",
]
