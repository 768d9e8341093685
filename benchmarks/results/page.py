"""Tables between the markers of a Markdown page: `<!-- table: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def as_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def of_columns(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Return a Markdown table of some columns of the rows, as they are; floats have two digits at most."""

    def cell(value: Any) -> str:
        return str(round(value, 2) if isinstance(value, float) else value)

    return as_table(columns, ([cell(row[column]) for column in columns] for row in rows))


def replaced(text: str, name: str, table: str) -> str:
    """Return a page with another table between the markers of that name.

    Raises:
        ValueError: If the page does not have them exactly once.
    """
    marked = re.compile(rf"(<!-- table: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    changed, count = marked.subn(lambda match: f"{match[1]}{table.strip()}\n{match[2]}", text)
    if count != 1:
        raise ValueError(f"the page has {count} places for the table {name!r}, needs one")
    return changed


def places(text: str) -> list[str]:
    """Return the names of all places of a page, in order."""
    return re.findall(r"<!-- table: (.*?) -->", text)


def filled(text: str, tables: Mapping[str, str]) -> str:
    """Return a page with a table in each of its places; tables that it has no place for are left out.

    Raises:
        KeyError: If there is no table for a place.
    """
    for name in places(text):
        text = replaced(text, name, tables[name])
    return text


def write(tables: Mapping[str, str], *pages: Path) -> None:
    """Write a table into each place of some pages; see `filled`."""
    for page in pages:
        page.write_text(filled(page.read_text(encoding="utf-8"), tables), encoding="utf-8")
        print(f"written: {page}")
