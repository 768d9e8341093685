from .best import BestFile, best_of_all, best_of_run, load_best, start_of
from .keeping import BestListener, write_best
from .sources import FixedSource, OptunaSource, TrialSource
from .spaces import defaults, require_runs, running_method, space_of
from .study import FIRST_STOP, SearchStudy
from .study_mirror import StudyMirror

__all__ = [
    "BestFile",
    "BestListener",
    "FIRST_STOP",
    "FixedSource",
    "OptunaSource",
    "SearchStudy",
    "StudyMirror",
    "TrialSource",
    "best_of_all",
    "best_of_run",
    "defaults",
    "load_best",
    "require_runs",
    "running_method",
    "space_of",
    "start_of",
    "write_best",
]
