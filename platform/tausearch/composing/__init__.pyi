from .analysing import alignment_rows, cosine_rows, measurements, risk_rows, theorem_rows
from .cards import describe_run, write_card
from .describing import ABOUT_FILE, LINEAR, About, describes, read_about
from .edited import EditedSeed, EditResult, read_edit
from .editing import edit_pools, evaluations
from .evaluating import Rule, evaluate
from .exporting import FORMS, HEAD_FILE, chosen_forms, export
from .pooling import Pools, backbone_of, device_of, make_pools, require_alike
from .recording import record_compositions, register, try_to_record
from .results import CompositionResult, Form, read_compositions
from .sources import VectorSource, about_source, find_source
from .weighing import COEFFICIENTS, DEFAULT_COEFFICIENT, PAPERS_READING, Weighing, uniform, weighing_of

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
    "PAPERS_READING",
    "Pools",
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
    "make_pools",
    "measurements",
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
