from .analysis import alignment_rows, cosine_rows, measurements, risk_rows, theorem_rows
from .cards import describe_run
from .descriptions import About, read_about
from .evaluation import evaluate, evaluate_pools, evaluations, require_curvatures
from .evaluation_results import EvaluatedSeed, EvaluationResult, evaluation_table, read_evaluation
from .exports import FORMS, chosen_forms, export
from .images import image_paths, list_images
from .loading import ModelOptions, load_model, open_model
from .merge_configs import (
    LINEAR,
    PAPER_UNLEARNING_MODE,
    UNLEARNING_MODES,
    MergeConfig,
    forgetting,
    merge_config_of,
    rule_words,
    tasks_called,
    uniform,
)
from .mlflow_records import record_compositions, register, try_to_record
from .model import Confusion, Model, Prediction, named_after, prediction_table
from .pools import Pools, backbone_of, device_of, make_pools, reduced, require_alike
from .removal.measure import evaluate_removal, removal_steps
from .removal.names import removal_of
from .removal.report import RemovalReport
from .removal.tables import MEMBERSHIP_NOTE, few_images, removal_tables
from .results import CompositionResult, Form, accuracy_table, read_compositions, still_answered_line
from .rule_search.results import RuleSearch, RuleTrial, chosen_by_line, no_gain_line, rule_search_table
from .rule_search.search import RuleSpace, rule_space, search_rule
from .sources import VectorSource, find_source

__all__ = [
    "About",
    "UNLEARNING_MODES",
    "MergeConfig",
    "CompositionResult",
    "Confusion",
    "EvaluationResult",
    "EvaluatedSeed",
    "FORMS",
    "Form",
    "LINEAR",
    "Model",
    "ModelOptions",
    "PAPER_UNLEARNING_MODE",
    "Pools",
    "Prediction",
    "VectorSource",
    "accuracy_table",
    "chosen_by_line",
    "no_gain_line",
    "prediction_table",
    "rule_search_table",
    "alignment_rows",
    "backbone_of",
    "chosen_forms",
    "merge_config_of",
    "rule_words",
    "still_answered_line",
    "cosine_rows",
    "describe_run",
    "evaluate_pools",
    "evaluation_table",
    "evaluate",
    "evaluations",
    "export",
    "evaluate_removal",
    "find_source",
    "forgetting",
    "image_paths",
    "load_model",
    "named_after",
    "list_images",
    "device_of",
    "make_pools",
    "measurements",
    "open_model",
    "read_about",
    "read_compositions",
    "read_evaluation",
    "record_compositions",
    "reduced",
    "register",
    "removal_of",
    "removal_steps",
    "removal_tables",
    "MEMBERSHIP_NOTE",
    "few_images",
    "RemovalReport",
    "RuleSearch",
    "RuleSpace",
    "RuleTrial",
    "rule_space",
    "search_rule",
    "require_alike",
    "require_curvatures",
    "risk_rows",
    "theorem_rows",
    "try_to_record",
    "tasks_called",
    "uniform",
]
