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
    "CompositionResult",
    "Confusion",
    "EvaluatedSeed",
    "EvaluationResult",
    "FORMS",
    "Form",
    "LINEAR",
    "MEMBERSHIP_NOTE",
    "MergeConfig",
    "Model",
    "ModelOptions",
    "PAPER_UNLEARNING_MODE",
    "Pools",
    "Prediction",
    "RemovalReport",
    "RuleSearch",
    "RuleSpace",
    "RuleTrial",
    "UNLEARNING_MODES",
    "VectorSource",
    "accuracy_table",
    "alignment_rows",
    "backbone_of",
    "chosen_by_line",
    "chosen_forms",
    "cosine_rows",
    "describe_run",
    "device_of",
    "evaluate",
    "evaluate_pools",
    "evaluate_removal",
    "evaluation_table",
    "evaluations",
    "export",
    "few_images",
    "find_source",
    "forgetting",
    "image_paths",
    "list_images",
    "load_model",
    "make_pools",
    "measurements",
    "merge_config_of",
    "named_after",
    "no_gain_line",
    "open_model",
    "prediction_table",
    "read_about",
    "read_compositions",
    "read_evaluation",
    "record_compositions",
    "reduced",
    "register",
    "removal_of",
    "removal_steps",
    "removal_tables",
    "require_alike",
    "require_curvatures",
    "risk_rows",
    "rule_search_table",
    "rule_space",
    "rule_words",
    "search_rule",
    "still_answered_line",
    "tasks_called",
    "theorem_rows",
    "try_to_record",
    "uniform",
]
