"""The matrix as a table: for papers and Markdown, and for the page of a campaign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tausearch.presentation import CellLook, Column, Table, score
from tausearch.reports.comparison.comparison import not_comparable, variant
from tausearch.reports.comparison.matrix import Matrix, MatrixCell, MatrixRow, is_joint
from tausearch.reports.comparison.paper import PaperResults
from tausearch.reports.comparison.runs import protocol_parts
from tausearch.runs import Score, shown_benchmark, shown_benchmarks

_BOUND = "trained on all tasks at once; an upper bound, not ranked"
_TITLE = "Final accuracy on the test split, percent"
_IN_CELLS = "Small: the paper's results, in parentheses where its protocol differs."
_PACE = ("tasks", "epochs", "batch_size")  # options of a benchmark that the caption states
Place = tuple[str, str]  # method and benchmark


@dataclass(frozen=True)
class _Beside:
    """Our result, and the paper's as text."""

    ours: Score
    paper: str

    @property
    def mean(self) -> float:
        return self.ours.mean


def matrix_table(matrix: Matrix, paper: PaperResults) -> Table:
    """Return a row for each method and a column for each benchmark; the caption gives protocol and seeds."""
    return _table(matrix, paper, {})


def page_matrix(matrix: Matrix, paper: PaperResults, links: Mapping[Place, str], pending: Mapping[Place, str]) -> Table:
    """Return the matrix of a page: the paper's results in the cells, and in `matrix` no rows of the paper.

    `links` and `pending` have, by method and benchmark, the place that tells more and the text without a result.
    """
    beside = any(paper.cell(name, row.method) for row in matrix.rows for name in row.cells)
    table = _table(matrix, paper, links)
    seen = {(row.method, name) for row in matrix.rows for name in row.cells}
    rows = []
    for row, values in zip(matrix.rows, table.rows, strict=True):
        cells: list[object] = [values[0]]
        for name in matrix.benchmarks:
            if name in row.cells:
                cells.append(_Beside(row.cells[name].score, _paper_text(row, name, paper)))
            else:
                waits = not row.settings and (row.method, name) not in seen
                cells.append(pending.get((row.method, name)) if waits else None)
                seen.add((row.method, name))
        rows.append(tuple(cells))
    columns = [table.columns[0], *(Column(each.name, _text, right=True, heat=True) for each in table.columns[1:])]
    text = " ".join([table.caption, *[_IN_CELLS] * beside])
    return replace(table, columns=columns, rows=rows, caption=text)


def matrix_caption(matrix: Matrix, paper: PaperResults) -> str:
    """Return what the numbers are: seeds, marks, protocol, and the source of the paper's rows."""
    if not matrix.seeds and not any(row.of_paper for row in matrix.rows):
        return "No final run has ended yet."
    parts = [f"Mean ± sample standard deviation over {_seeds(matrix)}."] if matrix.seeds > 1 else []
    if matrix.seeds == 1:
        parts = ["Of one seed."]
    cells = [cell for row in matrix.rows for cell in row.cells.values()]
    if any(cell.rank for cell in cells):
        parts.append("The best of a column is bold, the second underlined.")
    parts += [f"Protocol: {text}." for text in [_protocols(matrix, paper)] if text]
    if any(row.of_paper for row in matrix.rows):
        parts.append(f"Rows of the paper: {paper.source}, mean of {paper.runs} runs.")
    return " ".join(parts)


def _protocols(matrix: Matrix, paper: PaperResults) -> str:
    """Return the protocol parts of all our columns, then the other parts: `batch 128; A: 5 epochs; B and C: 9 epochs`.

    If a column has only rows of the paper, the text names the columns whose protocol it states.
    """
    heads = _headings(matrix, paper)
    found = {name: protocol_parts(protocol) for name, protocol in matrix.protocols.items()}
    shared = [part for part in next(iter(found.values()), []) if all(part in parts for parts in found.values())]
    own: dict[str, list[str]] = {}
    for name, parts in found.items():
        own.setdefault(", ".join(part for part in parts if part not in shared), []).append(heads[name])
    rest = [f"{join(names)}: {text or 'nothing else'}" for text, names in own.items()] if len(own) > 1 else []
    of_all = ", ".join(shared)
    if of_all and any(row.of_paper and row.cells.keys() - found.keys() for row in matrix.rows):
        of_all = f"{join([heads[name] for name in found])}: {of_all}"
    return "; ".join(filter(None, [of_all, *rest]))


def join(names: list[str]) -> str:
    """Return names as a list in words."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _seeds(matrix: Matrix) -> str:
    runs = [cell.run for row in matrix.rows for cell in row.cells.values() if cell.run is not None]
    seeds = {run.spec.seeds for run in runs if run.seeds_text == matrix.seeds_text}
    if len(seeds) == 1 and len(only := next(iter(seeds))) == matrix.seeds > 1:
        return f"seeds {join(list(map(str, only)))}"
    return matrix.seeds_text


def _headings(matrix: Matrix, paper: PaperResults) -> dict[str, str]:
    """Return the head of each column: its benchmark, with what the caption says of it only where two have one head."""
    stated = matrix.protocols  # of the columns that have a run
    names = {each: shown_benchmark(_without_pace(each) if each in stated else each) for each in matrix.benchmarks}
    shared = {each for each, count in Counter(names.values()).items() if count > 1}
    own = {**names, **shown_benchmarks([each for each, name in names.items() if name in shared])}
    return {**own, **{each: paper.benchmarks[each].title for each in own if each in paper.benchmarks}}


def _without_pace(benchmark: str) -> str:
    name, _, options = benchmark.partition("?")
    kept = [option for option in options.split("&") if option.partition("=")[0] not in _PACE]
    return "?".join(filter(None, [name, "&".join(kept)]))


def _table(matrix: Matrix, paper: PaperResults, links: Mapping[Place, str]) -> Table:
    heads = _headings(matrix, paper).values()
    columns = [Column("method"), *(Column(head, score, right=True) for head in heads)]
    notes: dict[str, int] = {}
    looks: dict[tuple[int, int], CellLook] = {}
    for number, row in enumerate(matrix.rows):
        if is_joint(row.method):
            looks[number, 0] = CellLook(notes=(notes.setdefault(_BOUND, len(notes)),))
        for place, name in enumerate(matrix.benchmarks, start=1):
            if (look := _look(row, name, notes, links)) != CellLook():
                looks[number, place] = look
    rows = [_values(row, matrix) for row in matrix.rows]
    first = [number for number, row in enumerate(matrix.rows) if row.of_paper][:1]
    blocks, text = [number for number in first if number], matrix_caption(matrix, paper)
    return Table(_TITLE, columns, rows, looks=looks, notes=list(notes), blocks=blocks, caption=text)


def _look(row: MatrixRow, benchmark: str, notes: dict[str, int], links: Mapping[Place, str]) -> CellLook:
    cell, link = row.cells.get(benchmark), links.get((row.method, benchmark), "")
    if cell is None:
        return CellLook(link=link)
    text = "; ".join([*cell.not_comparable, *cell.notes])
    return CellLook(cell.rank, (notes.setdefault(text, len(notes)),) if text else (), link)


def _values(row: MatrixRow, matrix: Matrix) -> tuple[object, ...]:
    cells: list[MatrixCell | None] = [row.cells.get(benchmark) for benchmark in matrix.benchmarks]
    return (row.name, *(None if cell is None else cell.score for cell in cells))


def _paper_text(row: MatrixRow, benchmark: str, paper: PaperResults) -> str:
    """Return the paper's result, in parentheses where its protocol is another one."""
    ours = row.cells[benchmark].run
    cell = None if ours is None else paper.cell(benchmark, row.method, variant(ours, paper))
    if cell is None or ours is None:
        return ""
    text = f"paper {Score(cell.accuracy, cell.std, paper.runs).text()}"
    return f"({text})" if not_comparable(ours, paper) else text


def _text(value: _Beside) -> str:
    return "\n".join(filter(None, [score(value.ours), value.paper]))
