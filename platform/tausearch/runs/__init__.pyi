from .bounds import (
    BesideBounds as BesideBounds,
    beside_bounds as beside_bounds,
    bound_name as bound_name,
    chance as chance,
    hardly_learned as hardly_learned,
    little_left as little_left,
)
from .choices import (
    another_choice as another_choice,
    choice_remark as choice_remark,
    search_of as search_of,
    trains_another as trains_another,
    unreadable_finals_of as unreadable_finals_of,
)
from .constraints import (
    Constraint as Constraint,
    metric_kind as metric_kind,
    no_feasible_trial_reason as no_feasible_trial_reason,
    violations as violations,
)
from .creation import (
    Plan as Plan,
    new_locked_run as new_locked_run,
    new_run as new_run,
    note_code as note_code,
    spec_update_or_rollback as spec_update_or_rollback,
    without_newer as without_newer,
)
from .directories import (
    CampaignDirectory as CampaignDirectory,
    DrivenDirectory as DrivenDirectory,
    RunDirectory as RunDirectory,
    trial_folder_name as trial_folder_name,
)
from .ending import (
    Ending as Ending,
    all_ended as all_ended,
    cut_short as cut_short,
    ending_of as ending_of,
    extended_rule as extended_rule,
    note_stopped as note_stopped,
    planned_trials as planned_trials,
)
from .guards import (
    PICTURE_MARK as PICTURE_MARK,
    UNFINISHED as UNFINISHED,
    driver_lock as driver_lock,
    is_driven as is_driven,
    is_empty as is_empty,
    remove_empty as remove_empty,
    remove_empty_root as remove_empty_root,
    remove_on_error as remove_on_error,
    require_figures as require_figures,
    require_new_folder as require_new_folder,
    require_output as require_output,
    require_page as require_page,
    require_picture as require_picture,
    require_space as require_space,
    require_writable_folder as require_writable_folder,
    shortage as shortage,
)
from .objectives.aim import Aim as Aim, best_trial as best_trial, eligible as eligible
from .objectives.objective import (
    FINAL_ACCURACY as FINAL_ACCURACY,
    Objective as Objective,
    objectives_of as objectives_of,
    preferred as preferred,
)
from .parts.leave_one_out import LeaveOneOut as LeaveOneOut, leave_one_out as leave_one_out
from .parts.reading import finals_of as finals_of, read_spec as read_spec
from .parts.scores import ACROSS as ACROSS, Scale as Scale, Scales as Scales
from .parts.spec import (
    MultiSearchSpec as MultiSearchSpec,
    PartsSpec as PartsSpec,
    SearchBenchmark as SearchBenchmark,
    parts_of as parts_of,
    titles_of as titles_of,
)
from .parts.trials import MultiTrial as MultiTrial, combine_parts as combine_parts, recorded_trials as recorded_trials
from .protocol import (
    DataFacts as DataFacts,
    ExperimentProtocol as ExperimentProtocol,
    Pilot as Pilot,
    Resources as Resources,
    protocol_of as protocol_of,
    shown_benchmark as shown_benchmark,
    shown_benchmarks as shown_benchmarks,
    with_one_slash as with_one_slash,
    without_folder_paths as without_folder_paths,
)
from .racing import Verdict as Verdict, race as race, verdict as verdict
from .record.files import place_aside as place_aside
from .record.record import Record as Record, row_metrics as row_metrics
from .reevaluations import (
    Gain as Gain,
    Reevaluation as Reevaluation,
    ReevaluationSpec as ReevaluationSpec,
    gain_of as gain_of,
    read_reevaluation as read_reevaluation,
    reevaluation_of as reevaluation_of,
    reevaluations_of as reevaluations_of,
    scales_within as scales_within,
    set_aside_orphans as set_aside_orphans,
    start_trial as start_trial,
)
from .results import (
    AccuracyOf as AccuracyOf,
    Conclusion as Conclusion,
    MetricSummary as MetricSummary,
    RunResult as RunResult,
    Score as Score,
    Summary as Summary,
    read_accuracies as read_accuracies,
    read_scores as read_scores,
    summarise as summarise,
    summarise_orders as summarise_orders,
    write_results as write_results,
)
from .search_analysis import (
    MIN_FINISHED_TRIALS as MIN_FINISHED_TRIALS,
    EarlyChoice as EarlyChoice,
    Importance as Importance,
    correlation_interval as correlation_interval,
    early_choices as early_choices,
    importances as importances,
    rank_correlations as rank_correlations,
    waiting_share as waiting_share,
)
from .specs.final import FinalSpec as FinalSpec, Retraining as Retraining
from .specs.kinds import AnySpec as AnySpec, changed_fields as changed_fields
from .specs.run import RunSpec as RunSpec, TrackerName as TrackerName, names_in as names_in
from .specs.search import (
    ALGORITHMS as ALGORITHMS,
    SCHEDULERS as SCHEDULERS,
    KnownPoint as KnownPoint,
    Reevaluate as Reevaluate,
    SearchSpec as SearchSpec,
    StopRule as StopRule,
)
from .status import (
    RunStatus as RunStatus,
    chosen_as_dict as chosen_as_dict,
    chosen_trial as chosen_trial,
    read_status as read_status,
    read_trials as read_trials,
)
from .storage import (
    DEFAULT_CACHE_SIZE as DEFAULT_CACHE_SIZE,
    DEFAULT_STORAGE as DEFAULT_STORAGE,
    PAPER as PAPER,
    RunError as RunError,
    Storage as Storage,
    StorageError as StorageError,
    checked_name as checked_name,
    nearest_folder as nearest_folder,
    open_storage as open_storage,
    replace_text as replace_text,
    require_unmistakable as require_unmistakable,
    storage_option as storage_option,
)
from .trials import (
    STATUSES as STATUSES,
    Status as Status,
    TrialSummary as TrialSummary,
    TrialTable as TrialTable,
    at_rest as at_rest,
    final_value as final_value,
    metrics_of as metrics_of,
)
