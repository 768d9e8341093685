from .ablation_tables import ablations, as_ablation_text, show_ablations
from .cells import comparison_sheets
from .command import Selection, as_sheets, as_texts, show_comparison, show_transfer
from .evaluated_models import as_evaluation_text, show_evaluations
from .matrix import Matrix, result_matrix
from .matrix_sheets import matrix_sheet, page_matrix
from .paper import PaperCell, PaperResults, load_results, paper_results
from .printing import Form
from .rows import Comparison, ComparisonRow, MatrixOrder, compare
from .run_differences import RunDifference, differences, names_runs, show_differences
from .runs import FinalRun, read_final_run, read_final_runs
from .transfers import TransferMatrix, transfer

__all__ = [
    "Comparison",
    "ComparisonRow",
    "FinalRun",
    "Form",
    "Matrix",
    "MatrixOrder",
    "PaperCell",
    "PaperResults",
    "RunDifference",
    "Selection",
    "TransferMatrix",
    "ablations",
    "as_ablation_text",
    "as_evaluation_text",
    "as_sheets",
    "as_texts",
    "compare",
    "comparison_sheets",
    "differences",
    "load_results",
    "matrix_sheet",
    "names_runs",
    "page_matrix",
    "paper_results",
    "read_final_run",
    "read_final_runs",
    "result_matrix",
    "show_ablations",
    "show_comparison",
    "show_differences",
    "show_evaluations",
    "show_transfer",
    "transfer",
]
