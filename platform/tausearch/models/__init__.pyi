from .analysis import (
    alignment_rows as alignment_rows,
    cosine_rows as cosine_rows,
    n_measurements as n_measurements,
    risk_rows as risk_rows,
    theorem_rows as theorem_rows,
)
from .cards import describe_run as describe_run
from .descriptions import read_description as read_description
from .evaluation import (
    evaluate as evaluate,
    evaluate_pools as evaluate_pools,
    n_evaluations as n_evaluations,
    require_mergeable as require_mergeable,
)
from .evaluation_results import (
    EvaluationResult as EvaluationResult,
    evaluation_table as evaluation_table,
    read_evaluation as read_evaluation,
)
from .exports import chosen_forms as chosen_forms, export as export, impossible_forms as impossible_forms
from .images import find_user_images as find_user_images, image_paths as image_paths
from .loading import ModelOptions as ModelOptions, load_model as load_model, open_model as open_model
from .merge_configs import (
    LINEAR as LINEAR,
    PAPER_UNLEARNING_MODE as PAPER_UNLEARNING_MODE,
    UNLEARNING_MODES as UNLEARNING_MODES,
    MergeConfig as MergeConfig,
    merge_config_of as merge_config_of,
    removal_config as removal_config,
    rule_words as rule_words,
    tasks_called as tasks_called,
    uniform as uniform,
)
from .mlflow_logging import log_compositions as log_compositions, try_to_log as try_to_log
from .model import (
    Confusion as Confusion,
    Model as Model,
    Prediction as Prediction,
    named_after as named_after,
    prediction_table as prediction_table,
)
from .pools import (
    Pools as Pools,
    backbone_of as backbone_of,
    device_of as device_of,
    make_pools as make_pools,
    reduced as reduced,
    require_alike as require_alike,
)
from .removal.measure import evaluate_removal as evaluate_removal, n_removal_steps as n_removal_steps
from .removal.names import removal_of as removal_of
from .removal.tables import (
    MEMBERSHIP_NOTE as MEMBERSHIP_NOTE,
    few_images as few_images,
    removal_tables as removal_tables,
)
from .results import (
    CompositionResult as CompositionResult,
    ExportForm as ExportForm,
    accuracy_table as accuracy_table,
    code_change_lines as code_change_lines,
    code_difference_lines as code_difference_lines,
    read_compositions as read_compositions,
    still_answered_line as still_answered_line,
    with_renamed_run as with_renamed_run,
)
from .rule_search.results import (
    RuleSearch as RuleSearch,
    chosen_by_line as chosen_by_line,
    no_gain_line as no_gain_line,
    rule_search_table as rule_search_table,
)
from .rule_search.search import RuleSpace as RuleSpace, rule_space as rule_space, search_rule as search_rule
from .rule_search.trial_cache import open_trial_cache as open_trial_cache
from .sources import VectorSource as VectorSource, find_source as find_source
