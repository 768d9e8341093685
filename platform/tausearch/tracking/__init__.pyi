from .compositions import track_composition
from .mlflow_run import MlflowRun
from .mlflow_store import checked_uri, reason
from .tables import PAPER_METRIC, TABLE_TAG, TableRow, write_table
from .tracker import Tracker

__all__ = [
    "MlflowRun",
    "PAPER_METRIC",
    "TABLE_TAG",
    "TableRow",
    "Tracker",
    "checked_uri",
    "reason",
    "track_composition",
    "write_table",
]
