"""What a notebook shows of a result: a line, tables and pictures, as HTML."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path

from tausearch.presentation.table_formats import as_html
from tausearch.presentation.tables import Table


def notebook_cell(lines: Sequence[str], tables: Sequence[Table], pictures: Sequence[Path] = ()) -> str:
    """Return HTML that holds all in itself; PNG files that are not there are left out."""
    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in lines)
    return paragraphs + as_html(tables) + "".join(_picture(file) for file in pictures if file.exists())


def _picture(file: Path) -> str:
    content = b64encode(file.read_bytes()).decode("ascii")
    return f'<img alt="{escape(file.stem)}" style="max-width: 100%" src="data:image/png;base64,{content}">'
