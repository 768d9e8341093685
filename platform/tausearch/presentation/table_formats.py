"""Tables as text: for the terminal, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import rich.table

from checked_input.text_files import spreadsheet_cell
from tausearch.presentation.tables import Column, Table
from tausearch.runs import shown_benchmark

_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"±": r"$\pm$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
)
_STYLES = {"marked": "bold green", "total": "bold", "strong": "bold", "faint": "dim", "good": "green", "bad": "red"}
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")


def terminal_table(table: Table, **look: Any) -> rich.table.Table:
    """Return a table of rich, made with its keyword arguments `look`.

    Marked rows begin with a star, for terminals without colours.
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
        if emphasis == "total":
            shown.add_section()
        shown.add_row(f"* {first}" if emphasis == "marked" else first, *others, style=_STYLES.get(emphasis, ""))
    return shown


def as_markdown(tables: Sequence[Table]) -> str:
    """Return one titled Markdown table per table; HTML in names is escaped."""
    return "\n".join(_markdown(table) for table in tables)


def as_latex(tables: Sequence[Table]) -> str:
    """Return one LaTeX tabular per table, for the package booktabs."""
    return "% needs \\usepackage{booktabs}\n" + "\n".join(_latex(table) for table in tables)


def as_csv(table: Table) -> str:
    """Return the unformatted values as CSV; a text that a spreadsheet would take for a formula is quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([spreadsheet_cell(value) for value in row] for row in (table.header, *table.rows))
    return out.getvalue()


def record_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of plain records: nested ones become columns `outer_inner`, lists one cell."""
    flat = [_flat(record) for record in records]
    names = list(dict.fromkeys(name for row in flat for name in row))
    return Table("", [Column(name) for name in names], [tuple(row.get(name) for name in names) for row in flat])


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if name == "settings":
            flat[name] = "; ".join(f"{k}={v}" for k, v in value.items())
        elif isinstance(value, Mapping):
            flat |= {f"{name}_{inner}": each for inner, each in value.items()}
        else:
            flat[name] = "; ".join(value) if isinstance(value, list) else value
    return flat


def _markdown(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        shown = (escape(cell, quote=False).replace("|", "\\|").replace("\n", "<br>") for cell in cells)
        return "| " + " | ".join(shown) + " |"

    rule = "|" + "|".join("---" for _ in table.columns) + "|"
    title = f"**{escape(table.title, quote=False)}**"
    return "\n".join([title, "", line(table.header), rule, *map(line, table.texts), ""])


def _latex(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        escaped = (shown_benchmark(cell).replace("\n", ", ").translate(_LATEX) for cell in cells)
        return " & ".join(_MINUS.sub("$-$", cell) for cell in escaped) + r" \\"

    start = [f"% {shown_benchmark(table.title)}", rf"\begin{{tabular}}{{{'l' * len(table.columns)}}}"]
    body = [r"\toprule", line(table.header), r"\midrule", *map(line, table.texts), r"\bottomrule"]
    return "\n".join([*start, *body, r"\end{tabular}", ""])
