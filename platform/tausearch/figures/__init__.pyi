from .composition import alignment_figure, cosine_figure, risk_figure, theorem_figure, time_figure, write_table
from .matrix import accuracy_matrix_figure
from .panels import Line, Panel, draw_panels
from .predictions import draw_predictions
from .search import draw_search
from .style import save

__all__ = [
    "Line",
    "Panel",
    "accuracy_matrix_figure",
    "alignment_figure",
    "cosine_figure",
    "draw_panels",
    "draw_predictions",
    "draw_search",
    "risk_figure",
    "save",
    "theorem_figure",
    "time_figure",
    "write_table",
]
