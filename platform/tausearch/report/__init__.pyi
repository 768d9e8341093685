from .page import write_report
from .pairs import cell_of
from .tables import AnyTable
from .views import ReportCell

__all__ = [
    "AnyTable",
    "ReportCell",
    "cell_of",
    "write_report",
]
