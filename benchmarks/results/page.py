"""Tables between the markers of a Markdown page: `<!-- table: NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def as_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


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
