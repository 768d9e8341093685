"""Comparisons as tables, for the terminal, the report, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from tausearch.presentation import Column, Table, emphasise, gain, percent, text_columns
from tausearch.reports.comparison.comparison import Comparison, ComparisonRow
from tausearch.reports.comparison.paper import PaperResults
from tausearch.reports.comparison.runs import FinalRunResults, describe, protocol_parts
from tausearch.reports.comparison.transfers import TransferCell, TransferMatrix
from tausearch.runs import Score

INCREMENTAL, POOLED = "average incremental", "all classes"
accuracy_text = attrgetter("accuracy_text")  # of `FinalRunResults`, for a column


_METHOD = Column("method", wrap=True)
_OURS = Column("ours", accuracy_text, right=True)
_MEANS = tuple(Column(name, percent, right=True, minor=True) for name in (INCREMENTAL, POOLED, "forgetting"))
_RUN = Column("run", wrap=True, minor=True)
_BESIDE = (
    *(_METHOD, _OURS, Column("paper", right=True), Column("difference", gain, right=True)),
    *(Column("within 2 sd", wrap=True), *_MEANS, Column("paper's forgetting", percent, right=True, minor=True), _RUN),
)
_NOT_COMPARED = (_METHOD, _OURS, *text_columns("why not"), *_MEANS, Column("protocol", wrap=True, minor=True), _RUN)


def comparison_tables(comparison: Comparison, paper: PaperResults) -> list[Table]:
    """Return two tables of a benchmark: runs that can be compared with the paper, and runs that cannot."""
    tables = []
    if comparison.rows:
        title = f"{paper.benchmarks[comparison.benchmark].title} ({comparison.benchmark}): final accuracy, percent"
        faint = emphasise((number for number, row in enumerate(comparison.rows) if row.ours is None), "faint")
        tables.append(Table(title, _BESIDE, [_row_beside_paper(row) for row in comparison.rows], faint))
    if comparison.not_compared:
        title = f"{comparison.benchmark}: not comparable with the paper, percent"
        tables.append(Table(title, _NOT_COMPARED, [_not_compared_row(row) for row in comparison.not_compared]))
    return [table.without_empty(INCREMENTAL, POOLED) for table in tables]


def transfer_tables(matrices: Sequence[TransferMatrix]) -> list[Table]:
    """Return matrices of final accuracies with a row per tuning benchmark and a column per judging benchmark."""
    names = [label(matrix.method, describe(matrix.settings)) for matrix in matrices]
    whole = [f"{name}, {each.backbone}, {each.precision}" for name, each in zip(names, matrices, strict=True)]
    shown = [long if names.count(name) > 1 else name for name, long in zip(names, whole, strict=True)]
    return [_transfer_table(name, matrix) for name, matrix in zip(shown, matrices, strict=True)]


def _transfer_table(name: str, matrix: TransferMatrix) -> Table:
    title = f"{name}: final accuracy in percent, by where it was tuned (rows) and judged (columns)"
    columns = [*text_columns("tuned on"), *(Column(judged_on, _transferred) for judged_on in matrix.judged_on)]
    rows = [
        (tuned_on, *(matrix.cells.get((tuned_on, judged_on)) for judged_on in matrix.judged_on))
        for tuned_on in matrix.tuned_on
    ]
    return Table(title, columns, rows)


def label(method: str, settings: str) -> str:
    """Return a method's name with its settings."""
    return f"{method} ({settings})" if settings else method


def _row_beside_paper(row: ComparisonRow) -> tuple[object, ...]:
    name, paper, ours = label(row.method, describe(row.settings)), row.paper, row.ours
    theirs = None if paper is None else Score(paper.accuracy, paper.std, 0).text()
    forgetting = None if paper is None else paper.forgetting
    if ours is None:
        return (name, None, theirs, None, None, *[None] * len(_MEANS), forgetting, None)
    means = _means(ours)
    return (name, ours, theirs, row.difference, _verdict(row), *means, forgetting, _run(row, ours))


def _not_compared_row(row: ComparisonRow) -> tuple[object, ...]:
    assert row.ours is not None
    name, why = label(row.method, describe(row.settings)), "; ".join(row.not_comparable)
    protocol = ", ".join(protocol_parts(row.ours.spec.protocol))
    return (name, row.ours, why, *_means(row.ours), protocol, _run(row, row.ours))


def _verdict(row: ComparisonRow) -> str:
    if row.within is None:
        return "no sd given"
    two_sd = f"{row.two_sd:.2f}"
    just = not row.within and f"{abs(row.difference or 0.0):.2f}" == two_sd  # the printed numbers would say yes
    return f"{'yes' if row.within else 'just not' if just else 'no'} ({two_sd})"


def _run(row: ComparisonRow, ours: FinalRunResults) -> str:
    notes = [f"{row.others} more"] if row.others else []
    precision = ours.spec.protocol.precision
    notes += [precision] if precision != "fp32" else []
    return ours.spec.name + (f" ({', '.join(notes)})" if notes else "")


def _means(run: FinalRunResults) -> list[float | None]:
    return [None if each is None else each.mean for each in (run.incremental, run.pooled, run.forgetting)]


def _transferred(cell: TransferCell) -> str:
    text = cell.run.accuracy_text
    if cell.tuned_on == cell.judged_on:
        return text
    if cell.loss is None:
        return f"{text}\nno run tuned here"
    return f"{text}\nloss {cell.loss:+.2f}" + ("" if cell.two_sd is None else f" ({cell.two_sd:.2f})")
