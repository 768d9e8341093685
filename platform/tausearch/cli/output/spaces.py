"""Search spaces as tables for people, and as plain values for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from rich.table import Table

from search_spaces import Choices, Dimension, Range, ResolvedSpace
from tausearch.presentation import console, number, tool
from tausearch.studies import defaults
from trainables.methods import get_method


def space_as_dict(space: ResolvedSpace) -> dict[str, Any]:
    """Return the plain form of a space, and what else can be set."""
    return {**space.as_dict(), "defaults": defaults(space)}


def show_spaces(spaces: Sequence[ResolvedSpace]) -> None:
    """Print one line per method: what is searched."""
    out = console()
    table = Table(title=f"search spaces on {spaces[0].benchmark}", title_justify="left")
    for column in ("method", "searched", "the paper chose"):
        table.add_column(column, no_wrap=column == "method")
    for space in spaces:
        searched = ", ".join(f"{name} {_extent(dimension)}" for name, dimension in space.space.items())
        paper = ", ".join(f"{name} {number(value)}" for name, value in space.paper.items())
        table.add_row(space.method, searched, paper)
    out.print(table)
    out.print(f"All of one: {tool()} spaces METHOD; values of another benchmark: --benchmark NAME", soft_wrap=True)


def show_space(space: ResolvedSpace) -> None:
    """Print what a search would use."""
    out = console()
    table = Table(title=f"{space.method} on {space.benchmark}", title_justify="left")
    for column in ("hyperparameter", "searched", "values", "used first", "paper"):
        table.add_column(column)
    for name, dimension in space.space.items():
        log = ", log scale" if isinstance(dimension, Range) and dimension.log else ""
        grid = ", ".join(number(value) for value in dimension.grid)
        first = (number(space.start[name]), number(space.paper.get(name)))
        table.add_row(name, f"{_extent(dimension)}{log}", grid, *first)
    for name, value in space.fixed.items():
        table.add_row(name, "fixed", "", number(value), number(space.paper.get(name)))
    for name, value in defaults(space).items():
        table.add_row(name, "default", _choices(get_method(space.method).config, name), number(value), "", style="dim")
    out.print(table)
    out.print("values of another benchmark, or of your own images: --benchmark NAME", style="dim", soft_wrap=True)


def _choices(config: type, name: str) -> str:
    """Return the values of a hyperparameter that takes a few words only."""
    kind = get_type_hints(config)[name]
    return ", ".join(get_args(kind)) if get_origin(kind) is Literal else ""


def _extent(dimension: Dimension) -> str:
    if isinstance(dimension, Choices):
        return ", ".join(map(str, dimension.choices))
    return f"{dimension.low:g} to {dimension.high:g}"
