"""The pre-consolidation cache as a table for people, and as plain values for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from checked_input.names import counted
from tausearch.presentation import Table, console, terminal_table, text_columns

if TYPE_CHECKING:  # torch takes seconds to import
    from trainables.preconsolidation.cache import Entry

_FIRST = ("benchmark", "purpose", "backbone", "seed", "task")
_TEXTS = _FIRST[:3]
_WORDS = {"True": True, "False": False, "None": None}


def entry_as_dict(entry: Entry) -> dict[str, Any]:
    """Return the plain form of an entry of the pre-consolidation cache."""
    about = {name: text if name in _TEXTS else _value(text) for name, text in entry.about.items()}
    return {"key": entry.path.stem, "bytes": entry.bytes, "used": entry.used, "in_use": entry.in_use, **about}


def _value(text: str) -> Any:
    """Return the number or word of Python that the header of an entry has as text; any other text as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return _WORDS.get(text, text)


def show_cache(entries: Sequence[Entry], removed: Sequence[Entry] | None) -> None:
    """Print the entries of the cache, the latest first, and their sizes; before them what was removed on request."""
    out = console()
    if removed is not None:
        out.print(f"removed {_total(removed)}; {len(entries)} in use stay")
    if not entries:
        out.print("the cache is empty")
        return
    out.print(terminal_table(_table(entries)))
    benchmarks = sorted({str(entry.about.get("benchmark", "")) for entry in entries})
    if len(benchmarks) > 1:
        for benchmark in benchmarks:
            parts = [entry for entry in entries if str(entry.about.get("benchmark", "")) == benchmark]
            out.print(f"{benchmark}: {_total(parts)}", soft_wrap=True)
    out.print(_total(entries))


def _table(entries: Sequence[Entry]) -> Table:
    about = [*_FIRST, *sorted({name for entry in entries for name in entry.about} - set(_FIRST))]
    rows = [
        (
            *(entry.about.get(name) for name in about),
            decimal(entry.bytes),
            datetime.fromtimestamp(entry.used).astimezone().strftime("%Y-%m-%d %H:%M"),
            "yes" if entry.in_use else None,
        )
        for entry in reversed(entries)
    ]
    return Table("", text_columns(*about, "size", "last used", "in use"), rows)


def _total(entries: Sequence[Entry]) -> str:
    return f"{counted(len(entries), 'entry')}, {decimal(sum(entry.bytes for entry in entries))}"
