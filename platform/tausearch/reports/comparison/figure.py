"""The picture of a comparison: methods by benchmark, ours and the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from checked_input.names import counted
from tausearch.presentation import Line, Panel, draw_panels, save
from tausearch.reports.comparison.comparison import Comparison, ComparisonRow
from tausearch.reports.comparison.paper import PaperResults
from tausearch.reports.comparison.runs import describe
from tausearch.reports.comparison.tables import label
from tausearch.runs import shown_benchmarks
from trainables.errors import InputError


def draw(comparisons: Sequence[Comparison], paper: PaperResults, path: Path) -> None:
    """Draw a panel for each benchmark with rows, and how many runs were left out; an `InputError` without a picture."""
    drawn = [(comparison, drawn_rows(comparison)) for comparison in comparisons]
    titles = _titles([comparison for comparison, rows in drawn if rows], paper)
    panels = [_panel(comparison, rows, titles[comparison.benchmark]) for comparison, rows in drawn if rows]
    shown = sum(row.ours is not None for _, rows in drawn for row in rows)
    left_out = sum(row.ours is not None for c in comparisons for row in (*c.rows, *c.not_compared)) - shown
    orders = any(len(row.ours.spec.protocol.class_orders or ()) > 1 for _, rows in drawn for row in rows if row.ours)
    note = f"left out: {counted(left_out, 'run')} that cannot be compared"
    if not panels:
        raise InputError(f"--figure {path}: there is nothing to draw{f' ({note})' if left_out else ''}")
    try:
        save(draw_panels(panels, note if left_out else "", "seeds and class orders" if orders else "seeds"), path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"picture {path}: cannot be written ({reason})") from error


def drawn_rows(comparison: Comparison) -> list[ComparisonRow]:
    """Return the rows of a panel: comparable ones; for a benchmark that the paper lacks, those tuned on it."""
    if comparison.in_paper:
        return list(comparison.rows)
    return [row for row in comparison.not_compared if row.ours and row.ours.tuned_on in (None, comparison.benchmark)]


def _titles(comparisons: Sequence[Comparison], paper: PaperResults) -> dict[str, str]:
    own = shown_benchmarks([each.benchmark for each in comparisons if not each.in_paper])
    theirs = {each.benchmark: paper.benchmarks[each.benchmark].title for each in comparisons if each.in_paper}
    return theirs | {benchmark: f"{name} (not in the paper)" for benchmark, name in own.items()}


def _panel(comparison: Comparison, rows: Sequence[ComparisonRow], title: str) -> Panel:
    names = [label(row.method, describe(row.settings)) for row in rows]
    twice = {name for name in names if names.count(name) > 1}
    labels = [f"{n}: {r.ours.spec.name}" if n in twice and r.ours else n for n, r in zip(names, rows, strict=True)]
    lines = tuple(_line(text, row) for text, row in zip(labels, rows, strict=True))
    return Panel(title, lines, group=0 if comparison.in_paper else 1)


def _line(text: str, row: ComparisonRow) -> Line:
    ours = None if row.ours is None else (row.ours.accuracy.mean, row.ours.accuracy.std or 0.0)
    paper = None if row.paper is None else (row.paper.accuracy, row.paper.std or 0.0)
    return Line(text, ours, paper)
