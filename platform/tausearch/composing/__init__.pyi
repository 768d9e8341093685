from .analysing import alignment_rows, cosine_rows, measurements, risk_rows, theorem_rows
from .edited import EditedSeed, EditResult, read_edit
from .editing import edit_pools, evaluations
from .evaluating import LINEAR, Rule, evaluate
from .exporting import FORMS, Form, about, chosen_forms, export, require_empty
from .pooling import Pools, make_pools, require_alike
from .recording import record_compositions, try_to_record
from .results import CompositionResult, read_compositions
from .sources import VectorSource, find_source, read_about
from .weighing import COEFFICIENTS, DEFAULT_COEFFICIENT, PAPERS_READING, Weighing, weighing_of

__all__ = [
    "COEFFICIENTS",
    "CompositionResult",
    "DEFAULT_COEFFICIENT",
    "EditResult",
    "EditedSeed",
    "FORMS",
    "Form",
    "LINEAR",
    "PAPERS_READING",
    "Pools",
    "Rule",
    "VectorSource",
    "Weighing",
    "about",
    "alignment_rows",
    "chosen_forms",
    "cosine_rows",
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
    "require_alike",
    "require_empty",
    "risk_rows",
    "theorem_rows",
    "try_to_record",
    "weighing_of",
]
