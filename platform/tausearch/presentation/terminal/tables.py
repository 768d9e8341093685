"""A table in the terminal."""

from __future__ import annotations

from typing import Any

import rich.table

from tausearch.presentation.tables import Table

_STYLES = {"marked": "bold green", "strong": "bold", "faint": "dim", "good": "green", "bad": "red"}


def terminal_table(table: Table, **look: Any) -> rich.table.Table:
    """Return a table as rich prints it; marked rows begin with a star, for terminals without colours.

    Args:
        table: The table.
        look: Further keyword arguments of rich's `Table`.
    """
    shown = rich.table.Table(title=table.title or None, title_justify="left", **look)
    for column in table.columns:
        shown.add_column(
            column.name,
            justify="right" if column.right else "left",
            no_wrap=not column.wrap,
            overflow="fold" if column.wrap else "ellipsis",
        )
    for place, (first, *others) in enumerate(table.texts):
        emphasis = table.emphasis.get(place, "")
        shown.add_row(f"* {first}" if emphasis == "marked" else first, *others, style=_STYLES.get(emphasis, ""))
    return shown
