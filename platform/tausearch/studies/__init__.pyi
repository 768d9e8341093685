from .algorithm_options import (
    USUAL_REEVALUATION as USUAL_REEVALUATION,
    constraints_named as constraints_named,
    objectives_named as objectives_named,
    one_of as one_of,
    requested_reevaluation as requested_reevaluation,
    require_alone as require_alone,
    require_patience as require_patience,
    require_scheduler as require_scheduler,
    usual_reevaluation as usual_reevaluation,
)
from .algorithms import algorithm_named as algorithm_named, learns as learns, startup_trials as startup_trials
from .best_file import (
    BestFile as BestFile,
    Selection as Selection,
    best_of_all as best_of_all,
    best_of_run as best_of_run,
    load_best as load_best,
    require_best_or_none as require_best_or_none,
    unsearched_best_file as unsearched_best_file,
)
from .best_listener import BestListener as BestListener, write_best as write_best
from .dashboard import dashboard_of as dashboard_of
from .grid import grid_size as grid_size, point_count as point_count
from .parts.merging import merged as merged
from .parts.searchers import MultiSearcher as MultiSearcher
from .parts.tune_trials import (
    PartTuneTrials as PartTuneTrials,
    TrialListener as TrialListener,
    TuneTrials as TuneTrials,
)
from .rebuilt_sampler import RebuiltSampler as RebuiltSampler
from .recorded.configurations import ConfigurationTable as ConfigurationTable
from .recorded.files import (
    TABLES as TABLES,
    load_table as load_table,
    read_table as read_table,
    table_files as table_files,
    write_table as write_table,
)
from .recorded.replays import (
    Replay as Replay,
    ReplayComparison as ReplayComparison,
    ReplayedSetting as ReplayedSetting,
    replay as replay,
    replays_of as replays_of,
)
from .recorded.trials import RecordedTrials as RecordedTrials
from .schedulers import pruner_class as pruner_class
from .searchers import (
    FixedSearcher as FixedSearcher,
    OptunaSearcher as OptunaSearcher,
    ReevaluationSearcher as ReevaluationSearcher,
    Searcher as Searcher,
    points_to_evaluate as points_to_evaluate,
)
from .spaces import (
    absent_images as absent_images,
    defaults as defaults,
    require_hyperparameters as require_hyperparameters,
    require_runs as require_runs,
    space_of as space_of,
)
from .study import require_sampler as require_sampler, study_of as study_of
from .study_mirror import MultiStudyMirror as MultiStudyMirror, StudyMirror as StudyMirror
from .warm_start import (
    kept_points as kept_points,
    known_points as known_points,
    warm_start_lines as warm_start_lines,
    with_renamed_source as with_renamed_source,
)
