"""A comparison as text in cells: the one form that the terminal, Markdown and LaTeX print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tausearch.comparison.paper import PaperResults
from tausearch.comparison.rows import Comparison, ComparisonRow
from tausearch.comparison.runs import FinalRun, describe, protocol_text
from tausearch.comparison.transfers import TransferCell, TransferMatrix
from tausearch.runs import Score

POOLED = "all classes"
SPARED = (POOLED, "forgetting", "paper's forgetting", "run")  # columns that a narrow terminal does without


@dataclass(frozen=True)
class Sheet:
    """A table of text cells with a title.

    Attributes:
        title: The text above the table.
        header: The names of the columns.
        rows: The rows; each has as many cells as the header.
        faint: Numbers of the rows that have nothing of ours.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    faint: frozenset[int] = frozenset()


def comparison_sheets(comparison: Comparison, paper: PaperResults) -> list[Sheet]:
    """Return what can be compared with the paper, and what cannot, of one benchmark."""
    sheets = []
    if comparison.rows:
        title = f"{paper.benchmarks[comparison.benchmark].title} ({comparison.benchmark}): final accuracy, percent"
        header = ("method", "ours", "paper", "difference", "within 2 sd", *SPARED)
        faint = frozenset(number for number, row in enumerate(comparison.rows) if row.ours is None)
        rows = tuple(_beside(row) for row in comparison.rows)
        sheets.append(_without_empty(Sheet(title, header, rows, faint), POOLED))
    if comparison.apart:
        title = f"{comparison.benchmark}: not comparable with the paper, percent"
        columns = ("method", "ours", "why not", *SPARED[:2], "protocol", "run")
        sheets.append(_without_empty(Sheet(title, columns, tuple(map(_apart, comparison.apart))), POOLED))
    return sheets


def without(sheet: Sheet, names: Sequence[str]) -> Sheet:
    """Return a sheet without the columns of these names."""
    kept = [number for number, name in enumerate(sheet.header) if name not in names]
    rows = tuple(tuple(row[number] for number in kept) for row in sheet.rows)
    return Sheet(sheet.title, tuple(sheet.header[number] for number in kept), rows, sheet.faint)


def transfer_sheet(matrix: TransferMatrix) -> Sheet:
    """Return a matrix: rows are where it was tuned, columns where it was judged."""
    rows = []
    for tuned_on in matrix.tuned_on:
        cells = (matrix.cells.get((tuned_on, judged_on)) for judged_on in matrix.judged_on)
        rows.append((tuned_on, *(_transferred(cell) for cell in cells)))
    name = label(matrix.method, describe(matrix.settings))
    title = f"{name}: final accuracy in percent, by where it was tuned (rows) and judged (columns)"
    return Sheet(title, ("tuned on", *matrix.judged_on), tuple(rows))


def label(method: str, settings: str) -> str:
    """Return a method's name with what was set beside it."""
    return f"{method} ({settings})" if settings else method


def score_text(score: Score) -> str:
    """Return `77.79 ± 0.26 (3)`: mean, standard deviation, seeds."""
    return f"{score.text()} ({score.seeds})"


def _beside(row: ComparisonRow) -> tuple[str, ...]:
    name, paper = label(row.method, describe(row.settings)), row.paper
    theirs = "" if paper is None else f"{paper.accuracy:.2f}" + ("" if paper.std is None else f" ± {paper.std:.2f}")
    forgetting = "" if paper is None or paper.forgetting is None else f"{paper.forgetting:.2f}"
    if row.ours is None:
        return (name, "", theirs, "", "", "", "", forgetting, "")
    difference = "" if row.difference is None else f"{row.difference:+.2f}"
    ours = score_text(row.ours.accuracy)
    return (name, ours, theirs, difference, _verdict(row), *_means(row.ours), forgetting, _run(row))


def _apart(row: ComparisonRow) -> tuple[str, ...]:
    assert row.ours is not None
    why, protocol = "; ".join(row.departures), protocol_text(row.ours.spec.protocol)
    name = label(row.method, describe(row.settings))
    return (name, score_text(row.ours.accuracy), why, *_means(row.ours), protocol, _run(row))


def _verdict(row: ComparisonRow) -> str:
    if row.within is None:
        return "no sd given"
    return f"{'yes' if row.within else 'no'} ({row.two_sd:.2f})"


def _run(row: ComparisonRow) -> str:
    assert row.ours is not None
    asked, had = row.ours.spec.trials, row.ours.accuracy.seeds
    notes = [f"{had} of {asked} seeds"] if had < asked else []
    notes += [f"{row.others} more"] if row.others else []
    precision = row.ours.spec.protocol.precision
    notes += [precision] if precision != "fp32" else []
    return row.ours.spec.name + (f" ({', '.join(notes)})" if notes else "")


def _without_empty(sheet: Sheet, name: str) -> Sheet:
    """Leave a column out that is empty in every row: results of older versions have no such number."""
    column = sheet.header.index(name)
    return sheet if any(row[column] for row in sheet.rows) else without(sheet, (name,))


def _means(run: FinalRun) -> tuple[str, str]:
    """Return the accuracy over all images together, and forgetting."""
    pooled, forgetting = ("" if score is None else f"{score.mean:.2f}" for score in (run.pooled, run.forgetting))
    return pooled, forgetting


def _transferred(cell: TransferCell | None) -> str:
    if cell is None:
        return ""
    text = score_text(cell.run.accuracy)
    if cell.tuned_on == cell.judged_on:
        return text
    if cell.loss is None:
        return f"{text}\nno run tuned here"
    return f"{text}\nloss {cell.loss:+.2f}" + ("" if cell.two_sd is None else f" ({cell.two_sd:.2f})")
