from .comparison.ablation_tables import as_ablation_text as as_ablation_text, show_ablations as show_ablations
from .comparison.command import (
    ComparisonScope as ComparisonScope,
    as_tables as as_tables,
    as_texts as as_texts,
    show_comparison as show_comparison,
    show_transfer as show_transfer,
)
from .comparison.comparison import MatrixOrder as MatrixOrder, compare as compare
from .comparison.evaluated_models import as_evaluation_text as as_evaluation_text, show_evaluations as show_evaluations
from .comparison.matrix import Matrix as Matrix, result_matrix as result_matrix
from .comparison.matrix_tables import page_matrix as page_matrix
from .comparison.paper import paper_results as paper_results
from .comparison.printing import OutputFormat as OutputFormat
from .comparison.run_differences import names_runs as names_runs, show_differences as show_differences
from .comparison.runs import (
    FinalRunResults as FinalRunResults,
    read_final_run as read_final_run,
    read_final_runs as read_final_runs,
)
from .html.page import cell_link as cell_link, write_report as write_report
from .html.pairs import cells_of as cells_of
from .html.views import ReportCell as ReportCell, RunPlots as RunPlots, draw_search_plots as draw_search_plots
