from .allowed import (
    USUAL_CONFIRM,
    algorithm_named,
    confirm_of,
    constraints_named,
    different_numbers,
    one_of,
    scheduler_named,
    usual_confirm,
)
from .best import BestFile, Selection, best_of_all, best_of_run, load_best, start_of
from .dashboard import dashboard_of
from .grid import grid_size
from .keeping import BestListener, write_best
from .sources import ConfirmationSource, FixedSource, OptunaSource, TrialSource, points_ahead
from .spaces import defaults, require_runs, space_of
from .study import FIRST_STOP, STARTUP_TRIALS, SearchStudy
from .study_mirror import StudyMirror
from .warm_start import known_points, warm_start_lines

__all__ = [
    "BestFile",
    "BestListener",
    "ConfirmationSource",
    "FIRST_STOP",
    "FixedSource",
    "OptunaSource",
    "STARTUP_TRIALS",
    "SearchStudy",
    "Selection",
    "StudyMirror",
    "TrialSource",
    "USUAL_CONFIRM",
    "algorithm_named",
    "best_of_all",
    "best_of_run",
    "confirm_of",
    "constraints_named",
    "dashboard_of",
    "defaults",
    "different_numbers",
    "grid_size",
    "known_points",
    "load_best",
    "one_of",
    "points_ahead",
    "require_runs",
    "scheduler_named",
    "space_of",
    "start_of",
    "usual_confirm",
    "warm_start_lines",
    "write_best",
]
