"""What `tausearch compare` does, from the options to what is printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tausearch.comparison.cells import POOLED, comparison_sheets, transfer_sheet
from tausearch.comparison.figure import draw
from tausearch.comparison.paper import paper_results
from tausearch.comparison.printing import Form, final_runs, nothing, print_text, say
from tausearch.comparison.records import comparison_records, matrices_as_dicts, rows_as_dicts, transfer_records
from tausearch.comparison.rows import Comparison, compare
from tausearch.comparison.runs import FinalRun
from tausearch.comparison.terminal import show_sheets
from tausearch.comparison.transfers import transfer
from tausearch.presentation import (
    Table,
    as_csv,
    as_latex,
    as_markdown,
    console,
    print_json,
    record_table,
    say_unreadable,
    tool,
)
from tausearch.runs import Storage, require_picture
from trainables.errors import InputError


def show_comparison(storage: Storage, benchmarks: Sequence[str], form: Form, figure: Path | None) -> None:
    """Print final runs beside the paper's results and draw the picture.

    Args:
        storage: Storage root that holds the runs.
        benchmarks: The benchmarks to show; empty for all that have a run.
        form: The form in which to print, one of `FORMS`.
        figure: The file to draw the picture to; None for `compare.png` in the storage folder.

    Raises:
        InputError: If a benchmark is unknown, or the picture cannot be written.
    """
    require_picture(storage, figure, "--figure")
    runs, without = final_runs(storage, benchmarks)
    if not runs and form != "json":
        nothing(storage, without, form)
        return
    paper = paper_results()
    comparisons = compare(runs, paper, list(dict.fromkeys(benchmarks)))
    drawn = _draw(comparisons, figure, storage) if runs else None
    sheets = [sheet for each in comparisons for sheet in comparison_sheets(each, paper)]
    if form == "json":
        rows = rows_as_dicts(comparisons)
        content = {"source": paper.source, "figure": None if drawn is None else str(drawn), "rows": rows}
        print_json({**content, "without_results": without})
    elif form == "csv":
        print(as_csv(record_table(comparison_records(comparisons))), end="")
    elif form == "table":
        _print_comparison(sheets, comparisons, without, drawn)
    else:
        print_text(sheets, form)


def as_sheets(runs: Sequence[FinalRun]) -> list[Table]:
    """Return final runs beside the paper's results: what can be compared with it, and what cannot."""
    paper = paper_results()
    return [sheet for each in compare(runs, paper) for sheet in comparison_sheets(each, paper)]


def as_texts(runs: Sequence[FinalRun]) -> dict[Form, str]:
    """Return final runs beside the paper's results in the forms that go into a paper: Markdown, LaTeX and CSV."""
    sheets = as_sheets(runs)
    records = comparison_records(compare(runs, paper_results()))
    return {"markdown": as_markdown(sheets), "latex": as_latex(sheets), "csv": as_csv(record_table(records))}


def show_transfer(storage: Storage, benchmarks: Sequence[str], form: Form) -> None:
    """Print, per method, the matrix of tuned-on by judged-on.

    Args:
        storage: Storage root that holds the runs.
        benchmarks: The benchmarks, as judged on, to show; empty for all.
        form: The form in which to print, one of `FORMS`.

    Raises:
        InputError: If a benchmark is unknown.
    """
    runs, without = final_runs(storage, benchmarks)
    if not runs and form != "json":
        nothing(storage, without, form)
        return
    matrices = transfer(runs, benchmarks)
    sheets = [transfer_sheet(matrix) for matrix in matrices]
    if form == "json":
        print_json({"matrices": matrices_as_dicts(matrices), "without_results": without})
    elif form == "csv":
        print(as_csv(record_table(transfer_records(matrices))), end="")
    elif not matrices:
        say(
            "no hyperparameters were judged on a benchmark they were not tuned on;"
            f" do it with: {tool()} train BEST.yaml --benchmark OTHER",
            form,
        )
    elif form == "table":
        out = console()
        show_sheets(sheets, out)
        out.print("\nloss: points below hyperparameters tuned on the judged benchmark itself (2 sd)", style="dim")
        if left_out := sum(matrix.left_out for matrix in matrices):
            out.print(f"left out, because judged under another protocol than the rest: {left_out}", style="dim")
    else:
        print_text(sheets, form)


def _print_comparison(
    sheets: Sequence[Table], comparisons: Sequence[Comparison], without: Sequence[str], drawn: Path | None
) -> None:
    out = console()
    show_sheets(sheets, out)
    out.print()
    for comparison in comparisons:
        if not (comparison.rows or comparison.apart):
            out.print(f"{comparison.benchmark}: no final run, and the paper does not have it")
    if any(comparison.rows for comparison in comparisons):
        out.print("ours: mean ± standard deviation (seeds)", style="dim")
        if any(POOLED in sheet.header for sheet in sheets):
            out.print(f"{POOLED}: ours over the images of all tasks together; ours is the mean over tasks", style="dim")
        out.print("within 2 sd: in parentheses, two standard deviations of the difference", style="dim")
    if without:
        out.print(f"without results yet: {', '.join(without)}", style="dim")
    if drawn is not None:
        out.print(f"picture  {drawn}", soft_wrap=True)


def _draw(comparisons: Sequence[Comparison], figure: Path | None, storage: Storage) -> Path | None:
    """Draw the picture; a storage folder that cannot be written costs the picture alone, unless it was asked for."""
    path = figure or storage.comparison_figure
    try:
        draw(comparisons, paper_results(), path)
    except InputError as error:
        if figure is not None:
            raise
        say_unreadable(error)
        return None
    return path
