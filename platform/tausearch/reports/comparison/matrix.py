"""Methods by benchmarks: final runs in one table, with the best of each column and what sets a run apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from checked_input.names import counted
from tausearch.reports.comparison.comparison import MatrixOrder, identity, not_comparable, protocol_differences
from tausearch.reports.comparison.paper import PaperResults
from tausearch.reports.comparison.runs import FREE_FIELDS, FinalRunResults, describe, latest_per_key
from tausearch.reports.comparison.tables import label
from tausearch.runs import ExperimentProtocol, Score
from trainables.methods import known_method


@dataclass(frozen=True)
class MatrixCell:
    """A method on a benchmark."""

    score: Score  # final accuracy, percent
    run: FinalRunResults | None = None  # our final run; None for a result of the paper
    not_comparable: tuple[str, ...] = ()  # differences from the protocol of the column; such a cell is not ranked
    notes: tuple[str, ...] = ()  # what else a reader must know
    rank: Literal["best", "second"] | None = None  # its place among the cells of its column that can be compared


@dataclass(frozen=True)
class MatrixRow:
    """A method in one setting, ours or the paper's."""

    method: str
    settings: str  # see `FinalRunResults.settings`, as text
    of_paper: bool
    cells: dict[str, MatrixCell]  # benchmark to cell

    @property
    def name(self) -> str:
        """The method with its settings; the paper's say so."""
        return f"{self.method}, paper" if self.of_paper else label(self.method, self.settings)


@dataclass(frozen=True)
class Matrix:
    """Methods by benchmarks."""

    benchmarks: tuple[str, ...]
    rows: tuple[MatrixRow, ...]  # our rows, then the paper's
    protocols: dict[str, ExperimentProtocol] = field(default_factory=dict)  # of each benchmark with runs of ours
    seeds: int = 0  # number of seeds of most runs
    seeds_text: str = ""  # `FinalRunResults.seeds_text` of most runs with so many


def result_matrix(
    runs: Sequence[FinalRunResults],
    paper: PaperResults,
    order: MatrixOrder | None = None,
    *,
    with_paper: bool = False,
    planned: Iterable[tuple[str, str]] = (),
) -> Matrix:
    """Return final runs as methods by benchmarks.

    A column's protocol is that of most of its runs that were tuned on the benchmark; of equally many, one that can be
    compared with the paper, then the newest. A method with runs under several protocols takes a row for each. Runs come
    oldest first; of equal ones the one with the most seeds counts, then the newest.

    Pairs of a method and a benchmark that are `planned` have rows and columns, too.
    """
    order, planned = order or MatrixOrder(), list(planned)
    ran = dict.fromkeys([*(run.spec.benchmark for run in runs), *(benchmark for _, benchmark in planned)])
    shown = order.benchmarks or {**paper.benchmarks, **ran}
    benchmarks = tuple(name for name in shown if name in ran or (order.benchmarks and with_paper))
    found = latest_per_key(runs, lambda run: (run.spec.benchmark, *identity(run)))
    columns = {name: [run for run in found if run.spec.benchmark == name] for name in benchmarks}
    usual = {name: _usual(column, paper) for name, column in columns.items() if column}
    seeds, seeds_text = _usual_seeds([run for column in columns.values() for run in column])
    cells = {name: [_cell(run, usual[name], seeds_text) for run in column] for name, column in columns.items()}
    methods = {method for method, benchmark in planned if benchmark in benchmarks}
    rows = _rows(cells, methods, order.methods or paper.methods)
    rows += _paper_rows(benchmarks, usual, paper) if with_paper else []
    protocols = {name: run.spec.protocol for name, run in usual.items()}
    return Matrix(benchmarks, _ranked(rows, benchmarks), protocols, seeds, seeds_text)


def _usual(runs: Sequence[FinalRunResults], paper: PaperResults) -> FinalRunResults:
    own = [run for run in runs if _tuned_here(run)] or list(runs)

    def weight(run: FinalRunResults) -> tuple[int, bool, int]:
        alike = sum(other.conditions == run.conditions for other in own)
        return alike, not not_comparable(run, paper), own.index(run)

    return max(own, key=weight)


def _usual_seeds(runs: Sequence[FinalRunResults]) -> tuple[int, str]:
    """Return the most frequent number of seeds, with its unit in words; runs that lack seeds count if all runs do."""
    whole = [run for run in runs if run.accuracy.seeds == run.spec.trials]
    counts = [run.accuracy.seeds for run in whole or runs]
    seeds = max(counts, key=lambda count: (counts.count(count), count), default=0)
    texts = [run.seeds_text for run in whole if run.accuracy.seeds == seeds]
    return seeds, max(texts, key=texts.count, default=counted(seeds, "seed"))


def _tuned_here(run: FinalRunResults) -> bool:
    return run.tuned_on in (None, run.spec.benchmark)


def _cell(run: FinalRunResults, usual: FinalRunResults, seeds_text: str) -> MatrixCell:
    mine, theirs = run.spec.protocol, usual.spec.protocol
    reasons = [
        f"{name.replace('_', ' ')} {_value(getattr(mine, name))} instead of {_value(getattr(theirs, name))}"
        for name in ExperimentProtocol.model_fields
        if name not in (*FREE_FIELDS, "weights_digest", "initial_head_digest")
        and getattr(mine, name) != getattr(theirs, name)
    ]
    reasons += ["other weights of the backbone"] * (mine.weights_digest != theirs.weights_digest and not reasons)
    reasons += ["another initial head"] * (mine.initial_head_digest != theirs.initial_head_digest)
    reasons += ["other images"] * (not reasons and run.has_images_of(usual) is False)
    reasons += [] if _tuned_here(run) else [f"tuned on {run.tuned_on}"]
    notes = [*([] if run.seeds_text == seeds_text else [run.seeds_text]), *filter(None, [run.choice_remark])]
    notes += ["images may be others"] * (run.has_images_of(usual) is None)
    return MatrixCell(run.accuracy, run, tuple(reasons), tuple(notes))


def _value(value: object) -> str:
    if value is None:
        return "as the benchmark has it"
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _rows(cells: dict[str, list[MatrixCell]], planned: set[str], methods: Sequence[str]) -> list[MatrixRow]:
    """Return our rows; one more of the same method for each further run on a benchmark, those set apart last."""
    groups: dict[tuple[str, str], dict[str, list[MatrixCell]]] = {(method, ""): {} for method in planned}
    for benchmark, column in cells.items():
        for cell in sorted(column, key=lambda each: len(each.not_comparable)):
            assert cell.run is not None
            of = (cell.run.spec.method, describe(cell.run.settings))
            groups.setdefault(of, {}).setdefault(benchmark, []).append(cell)
    rows = []
    for method, settings in sorted(groups, key=lambda of: _place(of, methods)):
        group = groups[method, settings]
        for number in range(max(map(len, group.values()), default=1)):
            here = {name: column[number] for name, column in group.items() if len(column) > number}
            rows.append(MatrixRow(method, settings, False, here))
    return rows


def _place(of: tuple[str, str], methods: Sequence[str]) -> tuple[int, str, str]:
    method, settings = of
    return (methods.index(method) if method in methods else len(methods), method, settings)


def _paper_rows(benchmarks: Sequence[str], usual: dict[str, FinalRunResults], paper: PaperResults) -> list[MatrixRow]:
    reasons = {name: protocol_differences(usual[name], paper) if name in usual else () for name in benchmarks}
    rows = []
    for method in paper.methods:
        found = {name: cell for name in benchmarks if (cell := paper.cell(name, method)) is not None}
        cells = {
            name: MatrixCell(Score(cell.accuracy, cell.std, paper.runs), not_comparable=reasons[name])
            for name, cell in found.items()
        }
        rows += [MatrixRow(method, "", True, cells)] if cells else []
    return rows


def _ranked(rows: Sequence[MatrixRow], benchmarks: Sequence[str]) -> tuple[MatrixRow, ...]:
    """Mark the best and the second of each column; equal as printed is equal, and after two best there is no second."""
    places = {name: _places([row.cells[name] for row in rows if _competes(row, name)]) for name in benchmarks}

    def marked(row: MatrixRow) -> MatrixRow:
        cells = {
            name: replace(cell, rank=places[name].get(_printed(cell)) if _competes(row, name) else None)
            for name, cell in row.cells.items()
        }
        return replace(row, cells=cells)

    return tuple(map(marked, rows))


def _competes(row: MatrixRow, benchmark: str) -> bool:
    return benchmark in row.cells and not row.cells[benchmark].not_comparable and not is_joint(row.method)


def is_joint(method: str) -> bool:
    """Whether a method sees all tasks at once, which makes its accuracy a bound."""
    entry = known_method(method)
    return entry is not None and entry.capabilities.joint


def _places(cells: Sequence[MatrixCell]) -> dict[str, Literal["best", "second"]]:
    """Return printed means and their places; none where nothing competes."""
    if len(cells) < 2:
        return {}
    means = dict.fromkeys(_printed(cell) for cell in sorted(cells, key=lambda cell: -cell.score.mean))
    names: tuple[Literal["best", "second"], ...] = ("best", "second")
    best = next(iter(means))
    shared = sum(_printed(cell) == best for cell in cells) > 1
    return dict(zip(means, names[:1] if shared else names, strict=False))


def _printed(cell: MatrixCell) -> str:
    return f"{cell.score.mean:.2f}"
