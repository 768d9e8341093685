"""Print tables in the terminal, in a form that fits a narrow one."""

from __future__ import annotations

from collections.abc import Sequence

import rich.table
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tausearch.presentation import Table, terminal_table

_BETWEEN = 3  # spaces between columns


def show_sheets(tables: Sequence[Table], out: Console) -> None:
    """Print tables. A narrow terminal gets them without minor columns, or a line for each row."""
    for number, table in enumerate(tables):
        if number:
            out.print()
        part = table.without(*(column.name for column in table.columns if column.minor))
        if _width(table, broken=False) <= out.width:
            out.print(_airy(table))
        elif _width(part, broken=True) <= out.width:
            out.print(_airy(part))
        else:
            _lines(table, out)


def _width(table: Table, *, broken: bool) -> int:
    """Return the width of a table in letters, with the text of wrapping columns broken between words if asked."""
    widths = []
    for column, *cells in zip(table.columns, *table.texts, strict=True):
        split = str.split if broken and column.wrap else str.splitlines
        widths.append(max(cell_len(piece) for text in (column.name, *cells) for piece in split(text) or [""]))
    return sum(widths) + _BETWEEN * len(widths)


def _airy(table: Table) -> rich.table.Table:
    return terminal_table(table, box=box.SIMPLE_HEAD, pad_edge=False)


def _lines(table: Table, out: Console) -> None:
    out.print(table.title, style="italic")
    for first, *others in table.texts:
        named = zip(table.header[1:], others, strict=True)
        parts = [f"{name} {cell}".replace("\n", ", ") for name, cell in named if cell]
        out.print(Text.assemble((first, "bold"), ": ", "; ".join(parts)))
