"""Datasets, backbones, search spaces, the pre-consolidation store: as tables and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from rich.filesize import decimal
from rich.table import Table

from search_spaces import Choices, Dimension, Range, ResolvedSpace
from tausearch.choosing import defaults
from tausearch.screen import console, counted, number, tool
from trainables.backbones import EMBEDDED
from trainables.data.dataset import DATA_VARIABLE, data_root
from trainables.methods import METHODS

if TYPE_CHECKING:  # Ray and timm take seconds to import
    from tausearch.api import CheckResult, DataState
    from trainables.backbones.offered import Offer
    from trainables.preconsolidation.store import Entry


def show_states(states: Sequence[DataState], root: str | None) -> None:
    """Print a table of all benchmarks, and where to get what is not there."""
    out = console()
    table = Table()
    for column in ("benchmark", "state", "classes", "train (per class)", "test (per class)", "layout"):
        table.add_column(column, overflow="fold")
    for state in states:
        classes = "" if state.classes is None else str(len(state.classes))
        table.add_row(state.name, state.state, classes, state.count("train"), state.count("test"), state.layout or "")
    out.print(table)
    out.print(f"looked for in {data_root(root)}/<benchmark> (--data-root, or {DATA_VARIABLE})", soft_wrap=True)
    for state in states:
        if not state.whole:
            out.print(f"{state.name}: needs {state.looks_for}\n  in {state.home}; from {state.source}", soft_wrap=True)


def show_check(found: CheckResult) -> None:
    """Print every fault, and how many there are of how many images."""
    out = console()
    for fault in found.faults:
        out.print(fault, soft_wrap=True)
    verdict = counted(len(found.faults), "fault") if found.faults else "all of them readable"
    out.print(
        f"{found.name}: {found.images:,} images in {Path(found.home)} ({found.layout}), {verdict}", soft_wrap=True
    )


def show_backbones(offers: Sequence[Offer], word: str) -> None:
    """Print backbones: without a word those whose weights are here, and how to see the others."""
    out, table = console(), Table()
    for column in ("backbone", "reads", "weights"):
        table.add_column(column, overflow="fold")
    for each in offers:
        if word or each.here:
            where = "embedded" if each.name == EMBEDDED else "here" if each.here else "on the hub"
            table.add_row(each.name, f"{each.size} x {each.size} {'grey' if each.channels == 1 else 'RGB'}", where)
    out.print(table)
    if not word:
        others = sum(not each.here for each in offers)
        out.print(f"timm offers {others} more: {tool()} backbones WORD, such as vit_base", soft_wrap=True)
        out.print("they are fetched when first used; a local file: --backbone NAME --weights FILE", soft_wrap=True)


def entry_as_dict(entry: Entry) -> dict[str, Any]:
    """Return the plain form of an entry of the pre-consolidation store."""
    return {"key": entry.path.stem, "bytes": entry.bytes, "used": entry.used, "in_use": entry.in_use, **entry.about}


def show_store(entries: Sequence[Entry], removed: Sequence[Entry] | None) -> None:
    """Print what the pre-consolidation store holds, after what was removed from it if that was asked for."""
    out = console()
    if removed is not None:
        size = decimal(sum(entry.bytes for entry in removed))
        out.print(f"removed {counted(len(removed), 'entry')}, {size}; {len(entries)} in use stay")
    if not entries:
        out.print("the store is empty")
        return
    first = ("benchmark", "purpose", "backbone", "seed", "task")
    about = [*first, *sorted({name for entry in entries for name in entry.about} - set(first))]
    table = Table(*about, "size", "last used", "in use")
    for entry in reversed(entries):
        used = datetime.fromtimestamp(entry.used).astimezone().strftime("%Y-%m-%d %H:%M")
        values = (entry.about.get(name, "") for name in about)
        table.add_row(*values, decimal(entry.bytes), used, "yes" if entry.in_use else "")
    out.print(table)
    by_benchmark: dict[str, list[Entry]] = {}
    for entry in entries:
        by_benchmark.setdefault(str(entry.about.get("benchmark", "")), []).append(entry)
    for benchmark, parts in sorted(by_benchmark.items()) if len(by_benchmark) > 1 else ():
        out.print(f"{benchmark}: {_total(parts)}", soft_wrap=True)
    out.print(_total(entries))


def _total(entries: Sequence[Entry]) -> str:
    return f"{counted(len(entries), 'entry')}, {decimal(sum(entry.bytes for entry in entries))}"


def space_as_dict(space: ResolvedSpace) -> dict[str, Any]:
    """Return the plain form of a space, whether its method runs, and what else can be set."""
    return {**space.as_dict(), "defaults": defaults(space), "runs": space.method in METHODS}


def show_spaces(spaces: Sequence[ResolvedSpace]) -> None:
    """Print one line per method: whether it runs, and what is searched."""
    out = console()
    table = Table(title=f"search spaces on {spaces[0].benchmark}", title_justify="left")
    for column in ("method", "runs", "searched", "the paper chose"):
        table.add_column(column, no_wrap=column in ("method", "runs"))
    for space in spaces:
        runs = space.method in METHODS
        searched = ", ".join(f"{name} {_extent(dimension)}" for name, dimension in space.space.items())
        paper = ", ".join(f"{name} {number(value)}" for name, value in space.paper.items())
        table.add_row(space.method, "yes" if runs else "not yet", searched, paper, style="" if runs else "dim")
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
        table.add_row(name, "default", _choices(METHODS[space.method].config, name), number(value), "", style="dim")
    out.print(table)
    if space.method not in METHODS:
        out.print(f"{space.method} does not run yet: search and train refuse it", style="yellow", soft_wrap=True)


def _choices(config: type, name: str) -> str:
    """Return the values of a hyperparameter that takes a few words only."""
    kind = get_type_hints(config)[name]
    return ", ".join(get_args(kind)) if get_origin(kind) is Literal else ""


def _extent(dimension: Dimension) -> str:
    if isinstance(dimension, Choices):
        return ", ".join(map(str, dimension.choices))
    return f"{dimension.low:g} to {dimension.high:g}"
