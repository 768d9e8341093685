from .choice import checked_tracking, require_installed, tracking_text, tracking_words
from .compositions import REMOVED_TAG, Version, is_registered, register_model, track_composition
from .contract_check import check_callback
from .delivery import PATIENCE_SECONDS, QUEUE_SIZE, Deliveries, Delivery
from .events import (
    BestFileWritten,
    Callback,
    ChoiceChanged,
    Event,
    ResultsWritten,
    RunBegan,
    RunEnded,
    RunInfo,
    TaskDone,
    TrialBegan,
    TrialEnded,
    changes,
    history,
)
from .mlflow_callback import MlflowCallback, table_writer, tracking_uri_of
from .mlflow_run import MlflowRun
from .mlflow_store import checked_uri, reason
from .named import callbacks_of
from .secrets import without_secrets
from .tables import PAPER_METRIC, TABLE_TAG, TableRow, write_table
from .tensorboard import TensorBoardCallback
from .tracker import Tracker

__all__ = [
    "REMOVED_TAG",
    "callbacks_of",
    "tracking_text",
    "tracking_words",
    "BestFileWritten",
    "Callback",
    "ChoiceChanged",
    "Deliveries",
    "Delivery",
    "Event",
    "MlflowCallback",
    "MlflowRun",
    "PAPER_METRIC",
    "PATIENCE_SECONDS",
    "QUEUE_SIZE",
    "RunBegan",
    "RunEnded",
    "ResultsWritten",
    "RunInfo",
    "TABLE_TAG",
    "TableRow",
    "TaskDone",
    "TensorBoardCallback",
    "Tracker",
    "TrialBegan",
    "TrialEnded",
    "Version",
    "changes",
    "check_callback",
    "checked_tracking",
    "checked_uri",
    "history",
    "is_registered",
    "reason",
    "register_model",
    "require_installed",
    "table_writer",
    "track_composition",
    "tracking_uri_of",
    "without_secrets",
    "write_table",
]
