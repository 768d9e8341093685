"""Search spaces as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from search_spaces import Dimension, Range, ResolvedSpace
from tausearch.cli.output.data import show_installed
from tausearch.presentation import Column, Table, console, emphasise, number, terminal_table, text_columns, tool
from tausearch.studies import defaults
from trainables.methods import get_method
from trainables.user_code import OURSELVES


def other_values(benchmark: str | None) -> str:
    """Return how to see the values of another benchmark; nothing for who has named one."""
    return "values of another benchmark, or of your own images: --benchmark NAME" if benchmark is None else ""


def show_spaces(spaces: Sequence[ResolvedSpace], elsewhere: str) -> None:
    """Print one line per method: what is searched. `elsewhere` says how to see other values; see `other_values`."""
    out = console()
    rows = [
        (
            space.method,
            ", ".join(f"{name} {_extent(dimension)}" for name, dimension in space.space.items()),
            ", ".join(f"{name} {number(value)}" for name, value in space.paper.items()),
        )
        for space in spaces
    ]
    columns = [Column("method"), *text_columns("searched", "the paper chose")]
    out.print(terminal_table(Table(f"search spaces on {spaces[0].benchmark}", columns, rows)))
    rest = f"; {elsewhere}" if elsewhere else ""
    show_installed("method", {space.method: OURSELVES for space in spaces})
    out.print(f"all of one: {tool()} list spaces METHOD{rest}", style="dim", soft_wrap=True)


def show_space(space: ResolvedSpace, elsewhere: str) -> None:
    """Print what a search would use. `elsewhere` says how to see other values; see `other_values`."""
    out = console()
    rows: list[tuple[object, ...]] = []
    for name, dimension in space.space.items():
        log = ", log scale" if isinstance(dimension, Range) and dimension.log else ""
        grid = ", ".join(map(number, dimension.grid))
        rows.append((name, f"{_extent(dimension)}{log}", grid, space.start[name], space.paper.get(name)))
    rows += [(name, "fixed", None, value, space.paper.get(name)) for name, value in space.fixed.items()]
    known = len(rows)
    config = get_type_hints(get_method(space.method).config)
    rows += [(name, "default", _choices(config[name]), value, None) for name, value in defaults(space).items()]
    columns = text_columns("hyperparameter", "searched", "values", "used first", "paper")
    faint = emphasise(range(known, len(rows)), "faint")
    out.print(terminal_table(Table(f"{space.method} on {space.benchmark}", columns, rows, faint)))
    if elsewhere:
        out.print(elsewhere, style="dim", soft_wrap=True)


def _choices(kind: Any) -> str:
    """Return the values of a hyperparameter that takes a few words only."""
    return ", ".join(get_args(kind)) if get_origin(kind) is Literal else ""


def _extent(dimension: Dimension) -> str:
    if isinstance(dimension, Range):
        return f"{dimension.low:g} to {dimension.high:g}"
    return ", ".join(map(str, dimension.choices))
