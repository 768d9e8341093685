from .figures.axes import AccuracyAxis
from .figures.composition import alignment_figure, cosine_figure, risk_figure, theorem_figure, time_figure, write_table
from .figures.final import draw_final
from .figures.matrix import accuracy_matrix_figure
from .figures.panels import Line, Panel, draw_panels
from .figures.predictions import draw_predictions
from .figures.search import draw_search
from .figures.style import caption, entitle, save
from .figures.trial import draw_trial
from .terminal.bars import LongWork
from .terminal.commands import code_words, command_on, storage_words, tool
from .terminal.live import LiveDisplay
from .terminal.plain import print_json, say_loading, say_unreadable
from .terminal.progress import ProgressDisplay
from .terminal.quiet import Stream, chatter_to
from .terminal.text import brief, clock, console, counted, number, percent, spread

__all__ = [
    "AccuracyAxis",
    "Line",
    "LiveDisplay",
    "LongWork",
    "Panel",
    "ProgressDisplay",
    "Stream",
    "accuracy_matrix_figure",
    "alignment_figure",
    "brief",
    "caption",
    "chatter_to",
    "clock",
    "code_words",
    "command_on",
    "console",
    "cosine_figure",
    "counted",
    "draw_final",
    "draw_panels",
    "draw_predictions",
    "draw_search",
    "draw_trial",
    "entitle",
    "number",
    "percent",
    "print_json",
    "risk_figure",
    "save",
    "say_loading",
    "say_unreadable",
    "spread",
    "storage_words",
    "theorem_figure",
    "time_figure",
    "tool",
    "write_table",
]
