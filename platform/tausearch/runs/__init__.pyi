from .conclusion import Conclusion, RunResult
from .creating import Plan, created, new_run
from .disk import StorageError, require_space, shortage
from .files import (
    DEFAULT_STORAGE,
    DEFAULT_STORE_GIGABYTES,
    CampaignDirectory,
    RunDirectory,
    Storage,
    open_storage,
    replace_text,
    trial_name,
)
from .insight import ENOUGH, importances, rank_correlations
from .lock import driver_lock, is_driven
from .protocol import ExperimentProtocol, protocol_of, shown_benchmark
from .record import Record
from .results import Score, read_scores, summarise, write_results
from .spec import ALGORITHMS, SCHEDULERS, Algorithm, Resources, RunSpec, Scheduler, differences, read_spec
from .status import RunStatus, all_statuses, read_status
from .trials import STATUSES, Status, TrialSummary, TrialTable, all_ended, at_rest, best_trial, final_value, metrics_of

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "CampaignDirectory",
    "Conclusion",
    "DEFAULT_STORAGE",
    "DEFAULT_STORE_GIGABYTES",
    "ENOUGH",
    "ExperimentProtocol",
    "Plan",
    "Record",
    "Resources",
    "RunDirectory",
    "RunResult",
    "RunSpec",
    "RunStatus",
    "SCHEDULERS",
    "STATUSES",
    "Scheduler",
    "Score",
    "Status",
    "Storage",
    "StorageError",
    "TrialSummary",
    "TrialTable",
    "all_statuses",
    "all_ended",
    "at_rest",
    "best_trial",
    "created",
    "differences",
    "driver_lock",
    "final_value",
    "importances",
    "is_driven",
    "metrics_of",
    "new_run",
    "open_storage",
    "protocol_of",
    "rank_correlations",
    "read_scores",
    "read_spec",
    "read_status",
    "replace_text",
    "require_space",
    "shortage",
    "shown_benchmark",
    "summarise",
    "trial_name",
    "write_results",
]
