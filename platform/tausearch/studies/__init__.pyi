from .algorithms import algorithm_named, learns, startup_trials
from .best_file import BestFile, Selection, best_of_all, best_of_run, load_best, start_of
from .best_listener import BestListener, write_best
from .dashboard import dashboard_of
from .grid import grid_size
from .options import (
    USUAL_REEVALUATION,
    constraints_named,
    objectives_named,
    one_of,
    requested_reevaluation,
    require_alone,
    require_scheduler,
    usual_reevaluation,
)
from .parts.merging import merged
from .parts.searchers import MultiSearcher, PartSearcher
from .parts.study_mirror import MultiStudyMirror
from .parts.units import PartUnits, Units
from .rebuilt_sampler import RebuiltSampler
from .recorded.configurations import ConfigurationTable
from .recorded.files import TABLES, load_table, read_table, table_files, write_table
from .recorded.replays import DEFAULT_SEEDS, Comparison, Outcome, Replay, replay, replays_of
from .recorded.trials import RecordedTrials
from .schedulers import FIRST_STOP, pruner_class, pruner_named
from .searchers import FixedSearcher, OptunaSearcher, ReevaluationSearcher, Searcher, points_ahead
from .spaces import defaults, require_hyperparameters, require_runs, space_of
from .study import SearchStudy, directions_of, require_sampler, study_of
from .study_mirror import StudyMirror
from .warm_start import kept_points, known_points, warm_start_lines

__all__ = [
    "BestFile",
    "BestListener",
    "Comparison",
    "ConfigurationTable",
    "ReevaluationSearcher",
    "DEFAULT_SEEDS",
    "FIRST_STOP",
    "merged",
    "MultiSearcher",
    "MultiStudyMirror",
    "PartSearcher",
    "PartUnits",
    "Units",
    "FixedSearcher",
    "OptunaSearcher",
    "Outcome",
    "RebuiltSampler",
    "RecordedTrials",
    "Replay",
    "SearchStudy",
    "objectives_named",
    "require_alone",
    "directions_of",
    "Selection",
    "StudyMirror",
    "TABLES",
    "Searcher",
    "USUAL_REEVALUATION",
    "best_of_all",
    "best_of_run",
    "requested_reevaluation",
    "constraints_named",
    "dashboard_of",
    "defaults",
    "grid_size",
    "kept_points",
    "known_points",
    "learns",
    "load_best",
    "load_table",
    "one_of",
    "points_ahead",
    "read_table",
    "replay",
    "replays_of",
    "require_hyperparameters",
    "require_runs",
    "algorithm_named",
    "pruner_class",
    "pruner_named",
    "require_sampler",
    "require_scheduler",
    "study_of",
    "space_of",
    "start_of",
    "startup_trials",
    "usual_reevaluation",
    "warm_start_lines",
    "table_files",
    "write_best",
    "write_table",
]
