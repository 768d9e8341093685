"""Tables as text: for the terminal, notebooks, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from functools import partial
from html import escape
from typing import Any

import rich.table
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from checked_input.text_files import spreadsheet_cell
from tausearch.presentation.tables import CellLook, Column, Table, note_mark
from tausearch.presentation.terminal.text import WIDE, omitted_columns_line
from tausearch.runs import without_folder_paths

_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    **{"±": r"$\pm$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''"},
    **{"’": "'", "‘": "`", "–": "--", "—": "---", "…": "...", "·": r"$\cdot$", "×": r"$\times$", "θ": r"$\theta$"},
}
# Letters by which Markdown would make a cell, a link, code or emphasis of a name; underscores inside a word do not.
_MARKDOWN_SIGNS = re.compile(r"[|\\`*]|\](?=[(\[])|(?<![^\W_])_|_(?![^\W_])")
_ACCENTS = (
    "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327"  # pdflatex sets them on any letter
)
_LETTERS = "ßøØæÆåÅœŒłŁ"  # as it does these
# Other scripts need an engine with fonts for them; pdflatex prints the number of the letter instead of failing.
_BEYOND = (
    r"\providecommand{\beyondlatin}[2]{\ifdefined\Umathchar #1\else\texttt{#2}\fi}"
    " % its letters need xelatex or lualatex and a font that has them"
)
_GAP = r"\setlength{\tabcolsep}{%s}"
_SMALL = ((7, (r"\scriptsize", _GAP % "2pt")), (5, (r"\footnotesize", _GAP % "3pt")))  # from so many columns on
# Seven benchmarks of the paper, with its rows and deviations of 10 and more, just fit the 345 points of `article`.
# \scriptsize and \tiny grow with the size of a document, faster than its pages do.
_NARROW = 8
_NARROWEST = (
    *(r"\fontsize{7}{8.5}\selectfont", _GAP % "1.25pt", r"\renewcommand{\tiny}{\fontsize{5}{6}\selectfont}"),
    r"\def\rowname{\fontsize{6}{7.5}\selectfont}",
)
_STYLES = {"marked": "bold green", "total": "bold", "strong": "bold", "faint": "dim", "good": "green", "bad": "red"}
_CSS = {"faint": "opacity: 0.6", "good": "color: #2ca02c", "bad": "color: #d62728"}  # in bold otherwise
_LEAST = 12  # letters: longer words of a column that wraps are broken before a column is left out
_MOST_LINES = 3  # of a cell of a minor column, which is left out otherwise
_LONG = 2 * _LEAST  # letters of a minor column, which goes before shorter ones
_DEVIATION = re.compile(r" \$\\pm\$ ([\d.]+)")
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")


class FittedTable(rich.table.Table):
    """A table of rich that leaves out the columns that a narrow terminal has no room for, and says so below.

    rich cuts each of them down to a letter. The first column always stays; minor ones go first, of these one whose text
    would fill many lines, then the last ones.
    """

    minor: Collection[int] = ()  # numbers of the minor columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Return the table of rich, and the line that says what was left out."""
        needed = [self._needed(console, options, place) for place in range(len(self.columns))]
        long = {place for place in self.minor if needed[place] > _LONG and not self.columns[place].no_wrap}
        kept, border = list(range(len(needed))), 1 if self.box else 0
        while len(kept) > 1 and sum(needed[place] + border for place in kept) + border > options.max_width:
            kept.remove(max(kept[1:], key=lambda place: (place in self.minor, place in long, place)))
        fitting = copy(self)
        fitting.columns = [self.columns[place] for place in kept]
        yield from rich.table.Table.__rich_console__(fitting, console, options)
        if omitted := len(self.columns) - len(kept):
            yield Text(omitted_columns_line(omitted), style="dim")

    def _needed(self, console: Console, options: ConsoleOptions, place: int) -> int:
        """Return the width that a column needs when the words of a wrapping one are broken into lines."""
        column = self.columns[place]
        longest = self._measure_column(console, options.update(width=WIDE), column)
        padding = self._get_padding_width(place)
        if column.no_wrap:
            return longest.maximum
        if column.width is not None:
            return column.width + padding
        fewest = -(-(longest.maximum - padding) // _MOST_LINES) if place in self.minor else 0
        return max(min(longest.minimum - padding, _LEAST), fewest) + padding


def terminal_table(table: Table, **look: Any) -> rich.table.Table:
    """Return a table of rich, made with its keyword arguments `look`.

    Marked rows begin with a star, for terminals without colours.
    """
    shown = FittedTable(title=table.title or None, title_justify="left", **look)
    shown.minor = [place for place, column in enumerate(table.columns) if column.minor]
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


def as_html(tables: Sequence[Table]) -> str:
    """Return one titled HTML table per table, for a page without a style sheet, such as a notebook's."""
    return "".join(map(_html, tables))


def as_markdown(tables: Sequence[Table]) -> str:
    """Return one titled Markdown table per table; HTML in names is escaped."""
    return "\n".join(_markdown(table) for table in tables)


def as_latex(tables: Sequence[Table]) -> str:
    """Return one LaTeX table with a caption per table, for the package booktabs."""
    names = {text for table in tables for text in (table.title, *table.header, *(row[0] for row in table.texts))}
    short = len(set(map(without_folder_paths, names))) == len(names)  # else two benchmarks would have one name
    body = "\n".join(_latex(table, short) for table in tables)
    head = ["% needs \\usepackage{booktabs}", *([_BEYOND] if r"\beyondlatin" in body else [])]
    return "\n".join([*head, body])


def latex_text(text: str) -> str:
    """Return a text for LaTeX, which every engine can set."""
    return "".join(map(_latex_letter, _MINUS.sub("\N{MINUS SIGN}", text))).replace("\N{MINUS SIGN}", "$-$")


def as_csv(table: Table) -> str:
    """Return the unformatted values as CSV; a text that a spreadsheet would take for a formula is quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([spreadsheet_cell(value) for value in row] for row in (table.header, *table.rows))
    return out.getvalue()


def rows_as_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of plain rows: nested ones become columns `outer_inner`, lists one cell."""
    flat = [_flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    return Table("", [Column(name) for name in names], [tuple(row.get(name) for name in names) for row in flat])


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name == "settings":
            flat[name] = "; ".join(f"{k}={v}" for k, v in value.items())
        elif isinstance(value, Mapping):
            flat |= {f"{name}_{inner}": _cell_text(each) for inner, each in value.items()}
        else:
            flat[name] = _cell_text(value)
    return flat


def _cell_text(value: Any) -> Any:
    return "; ".join(map(str, value)) if isinstance(value, list) else value


def _html(table: Table) -> str:
    def cell(text: str, look: CellLook, column: Column) -> str:
        ranked = {"best": "<b>{}</b>", "second": "<u>{}</u>"}.get(look.rank or "", "{}").format(_with_breaks(text))
        return _td("td", ranked + (f"<sup>{look.marks}</sup>" if look.notes else ""), column)

    title = " ".join(filter(None, [f"<b>{escape(table.title)}</b>" * bool(table.title), escape(table.caption)]))
    head = "".join(_td("th", escape(column.name), column) for column in table.columns)
    styles = [
        _CSS.get(name, "font-weight: bold") if (name := table.emphasis.get(n)) else "" for n in range(len(table.rows))
    ]
    rows = [f'<tr style="{style}">{"".join(row)}</tr>' for style, row in zip(styles, _looked(table, cell), strict=True)]
    notes = [f"<sup>{note_mark(n)}</sup> {escape(note)}<br>" for n, note in enumerate(table.notes)]
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return "".join([f"<p>{title}</p>" * bool(title), body, *notes])


def _td(tag: str, html: str, column: Column) -> str:
    return f'<{tag} style="text-align: {"right" if column.right else "left"}">{html}</{tag}>'


def _with_breaks(text: str) -> str:
    return escape(text, quote=False).replace("\n", "<br>")


def _markdown(table: Table) -> str:
    def shown(text: str) -> str:
        return _with_breaks(_MARKDOWN_SIGNS.sub(r"\\\g<0>", text))

    def cell(text: str, look: CellLook, _: Column) -> str:
        ranked = {"best": "**{}**", "second": "<u>{}</u>"}.get(look.rank or "", "{}").format(shown(text))
        return ranked + (f"<sup>{look.marks}</sup>" if look.notes else "")

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    rule = "|" + "|".join("---" for _ in table.columns) + "|"
    title = "\n\n".join(filter(None, [f"**{shown(table.title)}**", shown(table.caption)]))
    rows = [line(row) for row in _looked(table, cell)]
    notes = [f"<sup>{note_mark(n)}</sup> {shown(note)}<br>" for n, note in enumerate(table.notes)]
    return "\n".join([title, "", line(list(map(shown, table.header))), rule, *rows, "", *notes, *[""] * bool(notes)])


def _latex(table: Table, short: bool) -> str:
    narrow = len(table.columns) >= _NARROW
    small = _NARROWEST if narrow else next((lines for columns, lines in _SMALL if len(table.columns) >= columns), ())
    name = r"\rowname " if narrow else ""

    def shown(text: str) -> str:
        return latex_text((without_folder_paths(text) if short else text).replace("\n", ", "))

    def cell(text: str, look: CellLook, column: Column) -> str:
        printed = _DEVIATION.sub(partial(_deviation, narrow), shown(text)) if small else shown(text)
        ranked = {"best": r"\textbf{%s}", "second": r"\underline{%s}"}.get(look.rank or "", "%s") % printed
        mark = rf"\textsuperscript{{{look.marks}}}" if look.notes else ""
        return ranked + (rf"\rlap{{{mark}}}" if mark and column.right else mark)  # digits stay in line

    def line(cells: Sequence[str]) -> str:
        start = "{}" if cells[0][:1] in ("[", "*") else ""  # after a line's end they would be an option of it
        return start + " & ".join(cells) + r" \\"

    sides = "".join("r" if column.right else "l" for column in table.columns)
    body = [line([f"{name}{shown(text)}" for text in table.header]), r"\midrule"]
    for number, row in enumerate(_looked(table, cell)):
        body += [r"\midrule"] * (number in table.blocks)
        body.append(line([f"{name}{row[0]}", *row[1:]]))
    notes = [rf"\textsuperscript{{{note_mark(n)}}}\,{shown(note)}." for n, note in enumerate(table.notes)]
    caption = ". ".join(filter(None, [shown(table.title), shown(table.caption)]))
    below = [r"\par\smallskip", r"{\footnotesize " + r"\quad ".join(notes) + r"\par}"] if notes else []
    return "\n".join(
        [
            *(r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", r"\par\smallskip", *small),
            *(rf"\begin{{tabular}}{{@{{}}{sides}@{{}}}}", r"\toprule", *body, r"\bottomrule", r"\end{tabular}"),
            *(*below, r"\end{table}", ""),
        ]
    )


def _deviation(narrow: bool, found: re.Match[str]) -> str:
    """Return a deviation in small letters; where room is scarce, one of 10 and more has one decimal."""
    text = f"{float(found[1]):.1f}" if narrow and float(found[1]) >= 10 else found[1]
    return rf"{{\tiny$\pm${text}}}"


def _looked(table: Table, cell: Callable[[str, CellLook, Column], str]) -> list[list[str]]:
    return [
        [
            cell(text, table.look(number, place), column)
            for place, (text, column) in enumerate(zip(row, table.columns, strict=True))
        ]
        for number, row in enumerate(table.texts)
    ]


def _latex_letter(letter: str) -> str:
    if letter in _LATEX:
        return _LATEX[letter]
    if letter.isascii() or letter in _LETTERS or letter == "\N{MINUS SIGN}":
        return letter if letter.isprintable() else " "
    base, *accents = list(unicodedata.normalize("NFD", letter))
    if letter < "\u0180" and base.isascii() and accents and all(accent in _ACCENTS for accent in accents):
        return letter
    return rf"\beyondlatin{{{letter}}}{{U+{ord(letter):04X}}}"
