from .figures.composition import (
    alignment_figure as alignment_figure,
    cosine_figure as cosine_figure,
    risk_figure as risk_figure,
    theorem_figure as theorem_figure,
    time_figure as time_figure,
)
from .figures.confusion import confusion_figure as confusion_figure
from .figures.final import draw_final as draw_final
from .figures.fonts import drawn_names as drawn_names
from .figures.panels import Line as Line, Panel as Panel, draw_panels as draw_panels
from .figures.predictions import draw_predictions as draw_predictions
from .figures.search import draw_figure as draw_figure, draw_search as draw_search
from .figures.style import entitle as entitle, save as save
from .method_plots import accuracy_plot as accuracy_plot
from .notebooks import notebook_cell as notebook_cell
from .plots import (
    ACCENT as ACCENT,
    BEST as BEST,
    FAINT as FAINT,
    LINES as LINES,
    SCALE as SCALE,
    TICKS as TICKS,
    Axis as Axis,
    Facet as Facet,
    Plot as Plot,
    Series as Series,
)
from .run_tables import (
    accuracy_cells as accuracy_cells,
    front_table as front_table,
    leave_one_out_table as leave_one_out_table,
    mean_rows as mean_rows,
    reevaluation_table as reevaluation_table,
    scores_table as scores_table,
    trials_table as trials_table,
)
from .search_plots import SearchPlots as SearchPlots
from .table_formats import (
    as_csv as as_csv,
    as_latex as as_latex,
    as_markdown as as_markdown,
    rows_as_table as rows_as_table,
    terminal_table as terminal_table,
)
from .tables import (
    CellLook as CellLook,
    Column as Column,
    Emphasis as Emphasis,
    Table as Table,
    emphasise as emphasise,
    gain as gain,
    numbers as numbers,
    score as score,
    text_columns as text_columns,
)
from .terminal.bars import LongWork as LongWork
from .terminal.commands import (
    address_option as address_option,
    bounds_line as bounds_line,
    campaign_command as campaign_command,
    command_on as command_on,
    concurrency_option as concurrency_option,
    resume_command as resume_command,
    sync_advice as sync_advice,
    tool as tool,
)
from .terminal.live import LiveDisplay as LiveDisplay
from .terminal.progress import ProgressDisplay as ProgressDisplay
from .terminal.quiet import Stream as Stream, output_to as output_to, stream_of as stream_of
from .terminal.results import released_stdout as released_stdout, reserve_stdout as reserve_stdout, results as results
from .terminal.text import (
    brief as brief,
    clock as clock,
    console as console,
    number as number,
    omitted_columns_line as omitted_columns_line,
    percent as percent,
    print_json as print_json,
    print_notices as print_notices,
    range_text as range_text,
    say_loading as say_loading,
    see_page as see_page,
    stopped_words as stopped_words,
)
