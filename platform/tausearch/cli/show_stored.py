"""What lies on disk besides runs, for people: datasets, what a check of them found, the pre-consolidation store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal
from rich.table import Table

from tausearch.screen import console
from trainables.data.dataset import DATA_VARIABLE, data_root

if TYPE_CHECKING:  # torch takes seconds to import
    from tausearch.api import CheckResult, DataState
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
    verdict = f"{len(found.faults)} faults" if found.faults else "all of them readable"
    out.print(
        f"{found.name}: {found.images:,} images in {Path(found.home)} ({found.layout}), {verdict}", soft_wrap=True
    )


def entry_as_dict(entry: Entry) -> dict[str, Any]:
    """Return the plain form of an entry of the pre-consolidation store."""
    return {"key": entry.path.stem, "bytes": entry.bytes, "used": entry.used, "in_use": entry.in_use, **entry.about}


def show_store(entries: Sequence[Entry], removed: Sequence[Entry] | None) -> None:
    """Print what the pre-consolidation store holds, after what was removed from it if that was asked for."""
    out = console()
    if removed is not None:
        size = decimal(sum(entry.bytes for entry in removed))
        out.print(f"removed {len(removed)} entries, {size}; {len(entries)} in use stay")
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
    out.print(f"{len(entries)} entries, {decimal(sum(entry.bytes for entry in entries))}")
