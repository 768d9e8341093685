from .figures.composition import alignment_figure, cosine_figure, risk_figure, theorem_figure, time_figure, write_table
from .figures.confusion import confusion_figure
from .figures.final import draw_final
from .figures.fonts import drawn_names
from .figures.matrix import accuracy_matrix_figure
from .figures.panels import Line, Panel, draw_panels
from .figures.predictions import draw_predictions
from .figures.search import draw_plot, draw_search
from .figures.style import caption, entitle, save
from .method_plots import accuracy_plot
from .notebooks import notebook_cell
from .plots import ACCENT, BEST, FAINT, LINES, SCALE, TICKS, AccuracyAxis, Axis, Facet, Plot, Series
from .run_tables import (
    accuracy_cells,
    front_table,
    left_out_table,
    mean_rows,
    reevaluation_table,
    scores_table,
    trials_table,
)
from .search_plots import SearchPlots
from .table_formats import as_csv, as_html, as_latex, as_markdown, record_table, terminal_table
from .tables import CellLook, Column, Emphasis, Table, emphasise, gain, numbers, score, words
from .terminal.bars import LongWork
from .terminal.commands import (
    address_words,
    bounds_line,
    campaign_command,
    command_on,
    concurrency_words,
    resume_command,
    sync_advice,
    tool,
)
from .terminal.live import LiveDisplay
from .terminal.progress import ProgressDisplay
from .terminal.quiet import Stream, output_to, stream_of
from .terminal.text import (
    brief,
    clock,
    console,
    left_out_line,
    number,
    percent,
    print_json,
    say_loading,
    say_unreadable,
    see_page,
    spread,
    stopped_words,
)

__all__ = [
    "ACCENT",
    "BEST",
    "FAINT",
    "LINES",
    "SCALE",
    "TICKS",
    "address_words",
    "AccuracyAxis",
    "Axis",
    "CellLook",
    "Column",
    "Emphasis",
    "Facet",
    "Line",
    "LiveDisplay",
    "LongWork",
    "Panel",
    "Plot",
    "ProgressDisplay",
    "SearchPlots",
    "Series",
    "Stream",
    "Table",
    "accuracy_cells",
    "accuracy_matrix_figure",
    "accuracy_plot",
    "alignment_figure",
    "as_csv",
    "as_html",
    "as_latex",
    "as_markdown",
    "bounds_line",
    "brief",
    "caption",
    "output_to",
    "clock",
    "campaign_command",
    "concurrency_words",
    "command_on",
    "reevaluation_table",
    "console",
    "cosine_figure",
    "draw_final",
    "draw_panels",
    "draw_plot",
    "draw_predictions",
    "drawn_names",
    "confusion_figure",
    "draw_search",
    "emphasise",
    "entitle",
    "front_table",
    "left_out_table",
    "gain",
    "left_out_line",
    "mean_rows",
    "notebook_cell",
    "number",
    "numbers",
    "percent",
    "print_json",
    "record_table",
    "resume_command",
    "risk_figure",
    "save",
    "say_loading",
    "say_unreadable",
    "score",
    "scores_table",
    "see_page",
    "spread",
    "stopped_words",
    "stream_of",
    "sync_advice",
    "terminal_table",
    "theorem_figure",
    "time_figure",
    "tool",
    "trials_table",
    "words",
    "write_table",
]
