from .compositions import BEST_ALIAS, Version, is_registered, register_model, track_composition
from .mlflow_run import MlflowRun
from .mlflow_store import checked_uri, reason
from .tables import PAPER_METRIC, TABLE_TAG, TableRow, write_table
from .tracker import Tracker

__all__ = [
    "BEST_ALIAS",
    "MlflowRun",
    "PAPER_METRIC",
    "TABLE_TAG",
    "TableRow",
    "Tracker",
    "Version",
    "checked_uri",
    "is_registered",
    "reason",
    "register_model",
    "track_composition",
    "write_table",
]
