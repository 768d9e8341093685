from .axes import AccuracyAxis
from .composition import alignment_figure, cosine_figure, risk_figure, theorem_figure, time_figure, write_table
from .final import draw_final
from .matrix import accuracy_matrix_figure
from .panels import Line, Panel, draw_panels
from .predictions import draw_predictions
from .search import draw_search
from .style import caption, entitle, save

__all__ = [
    "AccuracyAxis",
    "Line",
    "Panel",
    "accuracy_matrix_figure",
    "alignment_figure",
    "caption",
    "cosine_figure",
    "draw_final",
    "draw_panels",
    "draw_predictions",
    "draw_search",
    "entitle",
    "risk_figure",
    "save",
    "theorem_figure",
    "time_figure",
    "write_table",
]
