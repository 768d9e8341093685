"""Specialisation and unlearning of final runs beside the paper's Tables 3 and 7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from search_spaces import Scalar
from tausearch.models import PAPER_UNLEARNING_MODE, UNLEARNING_MODES, EvaluationResult, read_evaluation
from tausearch.presentation import Column, Table, gain, print_notices, score, see_page, text_columns, tool
from tausearch.reports.comparison.comparison import not_comparable
from tausearch.reports.comparison.paper import PaperComposition, PaperResults, paper_results
from tausearch.reports.comparison.printing import ComparisonOutput, OutputFormat, show
from tausearch.reports.comparison.runs import FinalRunResults, describe
from tausearch.reports.comparison.tables import label
from tausearch.runs import Storage, storage_option

_SPECIALISED = ("target", "target_gain", "control")
_UNLEARNED = (*_SPECIALISED, "control_gain")
_SCORES = (*(f"specialisation_{part}" for part in _SPECIALISED), *(f"unlearning_{part}" for part in _UNLEARNED))
_COLUMNS = (
    *(*text_columns("method"), Column("whose")),
    *(Column("kept", score, right=True), Column("gain", gain, right=True), Column("others", score, right=True)),
    *(Column("unlearned", score, right=True), Column("gain of it", gain, right=True)),
    *(Column("the rest", score, right=True), Column("gain of the rest", gain, right=True)),
    *text_columns("run"),
)
_NOTE = f"readings of unlearning: {see_page('compose')}; a gain is relative to the whole composition"


@dataclass(frozen=True)
class EvaluationRow:
    """Specialisation and unlearning of a method on a benchmark: ours, the paper's, or both."""

    benchmark: str
    method: str
    settings: Mapping[str, Scalar]  # see `FinalRunResults.settings`
    ours: EvaluationResult | None
    paper: PaperComposition | None  # None if the paper has no result, or ours cannot be compared with it
    not_comparable: tuple[str, ...] = ()  # why ours cannot be compared with the paper's; empty if it can
    part: str = ""  # see `EvaluationResult.part_of`


def compare_evaluations(
    runs: Sequence[tuple[FinalRunResults, EvaluationResult]], paper: PaperResults, benchmarks: Sequence[str] = ()
) -> list[EvaluationRow]:
    """Return for each benchmark, by default all with a run, our runs beside the paper, then what only the paper has."""
    rows = []
    for name in dict.fromkeys(benchmarks or (run.spec.benchmark for run, _ in runs)):
        here = [_row(run, result, paper) for run, result in runs if run.spec.benchmark == name]
        theirs = paper.composition.get(name, {})
        had = {row.method for row in here if row.paper is not None}
        missing = [EvaluationRow(name, method, {}, None, cell) for method, cell in theirs.items() if method not in had]
        rows += sorted(here, key=lambda row: (row.method, len(row.settings))) + missing
    return rows


def show_evaluations(storage: Storage, benchmarks: Sequence[str], output_format: OutputFormat) -> None:
    """Print specialisation and unlearning of final runs beside the paper's; see `printing.show`."""

    def answer(runs: list[FinalRunResults], without: list[str]) -> ComparisonOutput:
        rows = compare_evaluations(_evaluated(storage, runs), paper_results(), benchmarks)
        content = {"source": paper_results().source, "rows": [_as_dict(row) for row in rows]}
        csv_rows = [csv_row for row in rows for csv_row in _csv_rows(row)]
        advice = f"no final run has been evaluated so; do it with: {tool()} evaluate RUN{storage_option(storage.root)}"
        return ComparisonOutput(content, csv_rows, evaluation_tables(rows), advice, [_NOTE])

    show(storage, benchmarks, output_format, answer)


def as_evaluation_text(storage: Storage, runs: Sequence[FinalRunResults]) -> str:
    """Return specialisation and unlearning of final runs as Markdown."""
    tables = evaluation_tables(compare_evaluations(_evaluated(storage, runs), paper_results()))
    return ComparisonOutput({}, [], tables, notes=[_NOTE]).markdown


def _evaluated(storage: Storage, runs: Sequence[FinalRunResults]) -> list[tuple[FinalRunResults, EvaluationResult]]:
    by_name = {run.spec.name: run for run in runs}
    among = [storage.run(name) for name in by_name]
    found, faults = storage.read_each(lambda each: (by_name[each.name], read_evaluation(each)), among=among)
    print_notices(*faults)
    return [(run, result) for run, result in found if result is not None]


def evaluation_tables(rows: Sequence[EvaluationRow]) -> list[Table]:
    """Return a table per benchmark, with a row for each unlearning mode of ours and one for the paper."""
    tables = []
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        lines = [line for row in rows if row.benchmark == benchmark for line in _lines(row)]
        tables.append(Table(f"{benchmark}: specialisation and unlearning, test accuracy in percent", _COLUMNS, lines))
    return tables


def _row(run: FinalRunResults, result: EvaluationResult, paper: PaperResults) -> EvaluationRow:
    reasons = not_comparable(run, paper)
    method = run.spec.method
    theirs = None if reasons or run.marks else paper.composition[run.spec.benchmark].get(method)
    part = result.part_of(run.spec)
    return EvaluationRow(run.spec.benchmark, method, run.settings, result, theirs, reasons, part)


def _lines(row: EvaluationRow) -> list[tuple[object, ...]]:
    name, lines = label(row.method, describe(dict(row.settings))), list[tuple[object, ...]]()
    if row.ours is not None:
        special = [row.ours.specialisation().get(part) for part in _SPECIALISED]
        readings = sorted(UNLEARNING_MODES, key=lambda reading: reading != PAPER_UNLEARNING_MODE)
        for number, reading in enumerate(readings):
            unlearned = map(row.ours.unlearning(reading).get, _UNLEARNED)
            about = (name, label(row.ours.run, row.part)) if number == 0 else (None, None)
            start = special if number == 0 else [None] * len(special)
            lines.append((about[0], f"ours, {reading}", *start, *unlearned, about[1]))
    if row.paper is not None:
        theirs = [getattr(row.paper.specialisation, part) for part in _SPECIALISED]
        theirs += [getattr(row.paper.unlearning, part) for part in _UNLEARNED]
        lines.append((None if row.ours else name, "paper", *theirs, None))
    return lines


def _as_dict(row: EvaluationRow) -> dict[str, Any]:
    return {
        "benchmark": row.benchmark,
        "method": row.method,
        "settings": dict(row.settings),
        "ours": None if row.ours is None else row.ours.as_dict(),
        "paper": None if row.paper is None else row.paper.model_dump(mode="json"),
        "departures": list(row.not_comparable),
    }


def _csv_rows(row: EvaluationRow) -> list[dict[str, Any]]:
    """Return the rows of the CSV form: one for each unlearning mode of ours, one for the paper."""
    about = {"benchmark": row.benchmark, "method": row.method, "settings": dict(row.settings)}
    csv_rows: list[dict[str, Any]] = []
    for reading in UNLEARNING_MODES if row.ours is not None else ():
        assert row.ours is not None
        parts = {"specialisation": row.ours.specialisation(), "unlearning": row.ours.unlearning(reading)}
        scores = {f"{table}_{name}": each for table, part in parts.items() for name, each in part.items()}
        every = {name: scores.get(name) for name in _SCORES}  # the same columns, whatever the first run has
        numbers: dict[str, float | None] = {name: each.mean if each else None for name, each in every.items()}
        numbers |= {f"{name}_std": each.std if each else None for name, each in every.items()}
        csv_rows.append(
            {**about, "whose": "ours", "reading": reading, "run": row.ours.run, **numbers, "seeds": len(row.ours.seeds)}
        )
    if row.paper is not None:
        plain = row.paper.model_dump(mode="json")
        numbers = {f"{k}_{n}": value for k, part in plain.items() for n, value in part.items()}
        csv_rows.append({**about, "whose": "paper", "reading": None, "run": None, **numbers, "seeds": None})
    return csv_rows
