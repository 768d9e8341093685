from .comparison.ablation_tables import ablations, as_ablation_text, show_ablations
from .comparison.cells import comparison_sheets
from .comparison.command import Selection, as_sheets, as_texts, show_comparison, show_transfer
from .comparison.evaluated_models import as_evaluation_text, show_evaluations
from .comparison.matrix import Matrix, result_matrix
from .comparison.matrix_sheets import matrix_sheet, page_matrix
from .comparison.paper import PaperCell, PaperResults, load_results, paper_results
from .comparison.printing import Form
from .comparison.rows import Comparison, ComparisonRow, MatrixOrder, compare
from .comparison.run_differences import RunDifference, differences, names_runs, show_differences
from .comparison.runs import FinalRun, read_final_run, read_final_runs
from .comparison.transfers import TransferMatrix, transfer
from .html.page import cell_link, write_report
from .html.pairs import cell_of, cells_of
from .html.views import ReportCell, RunPlots, draw_search_plots

__all__ = [
    "Comparison",
    "ComparisonRow",
    "FinalRun",
    "Form",
    "Matrix",
    "MatrixOrder",
    "PaperCell",
    "PaperResults",
    "ReportCell",
    "RunDifference",
    "RunPlots",
    "Selection",
    "TransferMatrix",
    "ablations",
    "as_ablation_text",
    "as_evaluation_text",
    "as_sheets",
    "as_texts",
    "cell_link",
    "cell_of",
    "cells_of",
    "compare",
    "comparison_sheets",
    "differences",
    "draw_search_plots",
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
    "write_report",
]
