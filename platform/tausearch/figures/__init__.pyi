from .matrix import accuracy_matrix_figure
from .panels import Line, Panel, draw_panels
from .search import draw_search
from .style import save

__all__ = [
    "Line",
    "Panel",
    "accuracy_matrix_figure",
    "draw_panels",
    "draw_search",
    "save",
]
