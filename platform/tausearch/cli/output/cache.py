"""The pre-consolidation cache as a table for people, and as plain values for programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal
from rich.table import Table

from tausearch.presentation import console, counted

if TYPE_CHECKING:  # torch takes seconds to import
    from trainables.preconsolidation.cache import Entry


def entry_as_dict(entry: Entry) -> dict[str, Any]:
    """Return the plain form of an entry of the pre-consolidation cache."""
    return {"key": entry.path.stem, "bytes": entry.bytes, "used": entry.used, "in_use": entry.in_use, **entry.about}


def show_cache(entries: Sequence[Entry], removed: Sequence[Entry] | None) -> None:
    """Print what the pre-consolidation cache holds, after what was removed from it if that was asked for."""
    out = console()
    if removed is not None:
        size = decimal(sum(entry.bytes for entry in removed))
        out.print(f"removed {counted(len(removed), 'entry')}, {size}; {len(entries)} in use stay")
    if not entries:
        out.print("the cache is empty")
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
