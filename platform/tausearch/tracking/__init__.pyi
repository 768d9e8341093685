from .benchmark_tags import TABLE_TAG as TABLE_TAG, TableRow as TableRow, log_benchmark_table as log_benchmark_table
from .choice import (
    checked_tracking as checked_tracking,
    require_installed as require_installed,
    tracking_options as tracking_options,
    tracking_text as tracking_text,
)
from .compositions import (
    REMOVED_TAG as REMOVED_TAG,
    Version as Version,
    is_registered as is_registered,
    register_model as register_model,
    track_composition as track_composition,
)
from .delivery import Deliveries as Deliveries, Delivery as Delivery
from .events import (
    BestFileWritten as BestFileWritten,
    Callback as Callback,
    ChoiceChanged as ChoiceChanged,
    Event as Event,
    ResultsWritten as ResultsWritten,
    RunBegan as RunBegan,
    RunEnded as RunEnded,
    RunInfo as RunInfo,
    TaskDone as TaskDone,
    TrialBegan as TrialBegan,
    TrialEnded as TrialEnded,
    replayed_events as replayed_events,
    trial_events as trial_events,
)
from .mlflow_callback import (
    MlflowCallback as MlflowCallback,
    table_writer as table_writer,
    tracking_uri_of as tracking_uri_of,
)
from .mlflow_run import MlflowRun as MlflowRun
from .mlflow_store import checked_uri as checked_uri, reason as reason
from .mlflow_writer import MlflowWriter as MlflowWriter
from .named import callbacks_of as callbacks_of
from .secrets import without_secrets as without_secrets
from .tensorboard import TensorBoardCallback as TensorBoardCallback
