from .analysis import alignment_rows, cosine_rows, measurements, risk_rows, theorem_rows
from .cards import describe_run, write_card
from .descriptions import ABOUT_FILE, LINEAR, About, describes, read_about
from .edit_results import EditedSeed, EditResult, read_edit
from .edits import edit_pools, evaluations
from .evaluation import Rule, evaluate
from .exports import FORMS, HEAD_FILE, chosen_forms, export
from .images import Looked, image_paths, looked_at
from .loading import load_model, open_model
from .merge_weights import COEFFICIENTS, DEFAULT_COEFFICIENT, PAPERS_READING, Weighing, uniform, weighing_of
from .mlflow_records import record_compositions, register, try_to_record
from .model import Model, Prediction
from .pools import Pools, backbone_of, device_of, make_pools, require_alike
from .results import CompositionResult, Form, read_compositions
from .sources import VectorSource, about_source, find_source

__all__ = [
    "ABOUT_FILE",
    "About",
    "COEFFICIENTS",
    "CompositionResult",
    "DEFAULT_COEFFICIENT",
    "EditResult",
    "EditedSeed",
    "FORMS",
    "Form",
    "HEAD_FILE",
    "LINEAR",
    "Looked",
    "Model",
    "PAPERS_READING",
    "Pools",
    "Prediction",
    "Rule",
    "VectorSource",
    "Weighing",
    "about_source",
    "alignment_rows",
    "backbone_of",
    "chosen_forms",
    "cosine_rows",
    "describe_run",
    "describes",
    "device_of",
    "edit_pools",
    "evaluate",
    "evaluations",
    "export",
    "find_source",
    "image_paths",
    "load_model",
    "looked_at",
    "make_pools",
    "measurements",
    "open_model",
    "read_about",
    "read_compositions",
    "read_edit",
    "record_compositions",
    "register",
    "require_alike",
    "risk_rows",
    "theorem_rows",
    "try_to_record",
    "uniform",
    "weighing_of",
    "write_card",
]
