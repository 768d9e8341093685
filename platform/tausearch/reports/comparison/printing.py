"""What all comparisons share: reading the final runs, checking names of benchmarks, and printing in all forms."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import rich.table
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from checked_input.names import choices
from tausearch.presentation import (
    Table,
    as_csv,
    as_latex,
    as_markdown,
    console,
    omitted_columns_line,
    print_json,
    print_notices,
    results,
    rows_as_table,
    terminal_table,
    tool,
)
from tausearch.reports.comparison.paper import paper_results
from tausearch.reports.comparison.runs import FinalRunResults, read_final_runs
from tausearch.runs import Storage, storage_option
from trainables.data import BENCHMARKS
from trainables.errors import InputError

OutputFormat = Literal["text", "json", "csv", "markdown", "latex"]
SCORES = "final accuracy: mean ± standard deviation (seeds)"  # a note
_BETWEEN = 3  # spaces between columns


@dataclass(frozen=True)
class ComparisonOutput:
    """A comparison in all of its forms."""

    content: Mapping[str, Any]  # the JSON form
    csv_rows: Sequence[Mapping[str, Any]]  # the rows of the CSV form
    tables: Sequence[Table]  # the tables of the terminal and Markdown, and of LaTeX where there is no matrix
    empty: str = ""  # the line that stands for missing tables; empty where no line is needed
    notes: Sequence[str] = ()  # below the tables in the terminal; without a matrix the captions of Markdown and LaTeX
    picture: Path | None = None  # the file of the picture that was drawn; the terminal names it
    matrix: Table | None = None  # methods by benchmarks: the table of LaTeX, and the first one of Markdown
    lack: str = ""  # lines about what was asked for and is not there: for stderr, and as comments in LaTeX

    @property
    def markdown(self) -> str:
        """The Markdown form."""
        whole = self._captioned if self.matrix is None else [self.matrix, *self.tables]
        return as_markdown([table for table in whole if table.rows])

    @property
    def latex(self) -> str:
        """The LaTeX form."""
        comment = "".join(f"% {line}\n" for line in self.lack.splitlines())
        return comment + as_latex(self._captioned if self.matrix is None else [self.matrix])

    @property
    def matrix_rows(self) -> Sequence[object]:
        """The rows of the matrix; without a matrix the tables, which then stand for it."""
        return self.tables if self.matrix is None else self.matrix.rows

    @property
    def _captioned(self) -> list[Table]:
        caption = " ".join(f"{note[0].upper()}{note[1:]}." for note in self.notes)
        return [replace(table, caption=caption) for table in self.tables]


def show(
    storage: Storage,
    benchmarks: Sequence[str],
    output_format: OutputFormat,
    answer: Callable[[list[FinalRunResults], list[str]], ComparisonOutput],
) -> None:
    """Print a comparison of final runs, or that there is no final run; runs that cannot be read are named on stderr.

    `answer` makes the comparison of the runs and the names of those without results yet. Without `benchmarks`, all that
    have a run are shown.

    Raises:
        InputError: If a benchmark is neither the paper's, nor embedded, nor a run's.
    """
    runs, others, faults = read_final_runs(storage)
    print_notices(*faults)
    specs, without = [*(run.spec for run in runs), *others], [spec.name for spec in others]
    known = [*dict.fromkeys([*paper_results().benchmarks, *BENCHMARKS, *(spec.benchmark for spec in specs)])]
    for name in benchmarks:
        if name not in known:
            no_run = f"; there is no run of this name, either{storage.hint_for(name)}"
            raise InputError(f"unknown benchmark {name!r}; {choices(name, known)}{no_run}")
    if runs or output_format == "json" or not paper_results().benchmarks.keys().isdisjoint(benchmarks):
        print_answer(answer(runs, without), output_format)
    else:
        unfinished = f" ({', '.join(without)} without results yet)" if without else ""
        train = f"{tool()} train BEST.yaml{storage_option(storage.root)}"
        _say(f"no final runs in {storage.root} to compare{unfinished}; make one with: {train}", output_format)


def print_answer(answer: ComparisonOutput, output_format: OutputFormat) -> None:
    """Print a comparison on stdout, and what it lacks on stderr."""
    if answer.lack:
        print(answer.lack, file=sys.stderr)
    if output_format == "json":
        print_json(answer.content)
    elif answer.empty and not (answer.matrix_rows if output_format == "latex" else answer.tables):
        _say(answer.empty, output_format)
    elif output_format == "csv":
        print(as_csv(rows_as_table(answer.csv_rows)), end="", file=results())
    elif output_format == "text":
        out = console()
        show_tables(answer.tables, out)
        if answer.notes or answer.picture is not None:
            out.print()
        for note in answer.notes:
            out.print(note, style="dim", soft_wrap=True)
        if answer.picture is not None:
            out.print(f"picture  {answer.picture}", soft_wrap=True)
    else:
        print(answer.markdown if output_format == "markdown" else answer.latex, end="", file=results())


def _say(line: str, output_format: OutputFormat) -> None:
    """Print a line on stdout, or on stderr if stdout has a form for programs."""
    print(line, file=sys.stdout if output_format == "text" else sys.stderr)


def show_tables(tables: Sequence[Table], out: Console) -> None:
    """Print tables. A narrow terminal gets them without minor columns, or a line for each row."""
    for number, table in enumerate(tables):
        if number:
            out.print()
        part = table.without(*(column.name for column in table.columns if column.minor))
        if _width(table, broken=False) <= out.width:
            out.print(_airy(table))
        elif _width(part, broken=True) <= out.width:
            out.print(_airy(part))
            if omitted := len(table.columns) - len(part.columns):
                out.print(omitted_columns_line(omitted), style="dim")
        else:
            _lines(table, out)


def _width(table: Table, *, broken: bool) -> int:
    """Return the width of a table in letters, with the text of wrapping columns broken between words if asked."""
    widths = []
    for column, *cells in zip(table.columns, *table.texts, strict=True):
        split = str.split if broken and column.wrap else str.splitlines
        widths.append(max(cell_len(piece) for text in (column.name, *cells) for piece in split(text) or [""]))
    return sum(widths) + _BETWEEN * len(widths)


def _airy(table: Table) -> rich.table.Table:
    return terminal_table(table, box=box.SIMPLE_HEAD, pad_edge=False)


def _lines(table: Table, out: Console) -> None:
    out.print(table.title, style="italic")
    for first, *others in table.texts:
        named = zip(table.header[1:], others, strict=True)
        parts = [f"{name} {cell}".replace("\n", ", ") for name, cell in named if cell]
        out.print(Text.assemble((first, "bold"), ": ", "; ".join(parts)))
