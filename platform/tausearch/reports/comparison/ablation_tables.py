"""Ablations of final runs beside the paper's Tables 2 and 6: a row per method, a column per regularised part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tausearch.presentation import Table, numbers, percent, text_columns, tool
from tausearch.reports.comparison.comparison import not_comparable, variant
from tausearch.reports.comparison.csv_rows import run_as_dict
from tausearch.reports.comparison.paper import PaperResults, paper_results
from tausearch.reports.comparison.printing import SCORES, ComparisonOutput, OutputFormat, show
from tausearch.reports.comparison.runs import FinalRunResults, describe, latest_per_key
from tausearch.reports.comparison.tables import accuracy_text, label
from tausearch.runs import Storage, storage_option

VARIANTS = ("all", "head", "none")


@dataclass(frozen=True)
class AblationRow:
    """Results of a method on a benchmark with everything, only the head, or nothing regularised."""

    benchmark: str
    method: str
    settings: str  # other settings than the ablation, as text; empty for the method as it is
    ours: dict[str, FinalRunResults]  # variant to final run
    paper: dict[str, float]  # variant to the paper's final accuracy, percent; empty where ours cannot be compared

    @property
    def run_names(self) -> str:
        """The names of our runs, in the order of the variants."""
        return ", ".join(self.ours[name].spec.name for name in VARIANTS if name in self.ours)


def ablations(
    runs: Sequence[FinalRunResults], paper: PaperResults, benchmarks: Sequence[str] = ()
) -> list[AblationRow]:
    """Return a row for each method with at least two variants of ours, or with one that the paper ablates.

    Runs of one group differ only in the ablated hyperparameter. They come oldest first.
    """
    groups: dict[str, dict[str, FinalRunResults]] = {}
    for run in latest_per_key(runs, lambda each: (_group(each, paper), variant(each, paper))):
        groups.setdefault(repr(_group(run, paper)), {})[variant(run, paper)] = run
    found = [_row(variants, paper) for variants in groups.values()]
    shown = [row for row in found if len(row.ours) > 1 or len(row.paper) > 1]
    wanted = [row for row in shown if not benchmarks or row.benchmark in benchmarks]
    return sorted(wanted, key=lambda row: (row.benchmark, paper.place(row.method)))


def show_ablations(storage: Storage, benchmarks: Sequence[str], output_format: OutputFormat) -> None:
    """Print the ablations of final runs beside the paper's; see `printing.show`."""

    def answer(runs: list[FinalRunResults], without: list[str]) -> ComparisonOutput:
        rows = ablations(runs, paper_results(), benchmarks)
        csv_rows = [_as_dict(row) for row in rows]
        train = f"{tool()} train BEST.yaml{storage_option(storage.root)}"
        advice = f"no ablations; make one with: {train} --set {paper_results().ablated}=none"
        return ComparisonOutput({"rows": csv_rows}, csv_rows, ablation_tables(rows), advice, [SCORES])

    show(storage, benchmarks, output_format, answer)


def as_ablation_text(runs: Sequence[FinalRunResults]) -> str:
    """Return the ablations of final runs as Markdown."""
    return ComparisonOutput({}, [], ablation_tables(ablations(runs, paper_results())), notes=[SCORES]).markdown


def ablation_tables(rows: Sequence[AblationRow]) -> list[Table]:
    """Return a table per benchmark: our accuracy and the paper's for each variant."""
    tables = []
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        columns = text_columns("method")
        for name in VARIANTS:
            columns += numbers(f"{name}: ours", format=accuracy_text) + numbers(f"{name}: paper", format=percent)
        columns += text_columns("runs")
        title = f"{benchmark}: final accuracy by what is regularised, percent"
        here = [row for row in rows if row.benchmark == benchmark]
        cells = [(label(row.method, row.settings), *_cells(row), row.run_names) for row in here]
        tables.append(Table(title, columns, cells))
    return tables


def _group(run: FinalRunResults, paper: PaperResults) -> tuple[object, ...]:
    others = {name: value for name, value in run.settings.items() if name != paper.ablated}
    return (run.spec.benchmark, run.spec.method, sorted(others.items()), run.tuned_on, run.conditions)


def _row(variants: dict[str, FinalRunResults], paper: PaperResults) -> AblationRow:
    run = next(iter(variants.values()))
    benchmark, method = run.spec.benchmark, run.spec.method
    beyond = any(name in paper.beyond for name in run.marks)
    no_paper = beyond or any(not_comparable(each, paper) for each in variants.values())
    cells = {} if no_paper else {name: paper.cell(benchmark, method, name) for name in VARIANTS}
    theirs = {name: cell.accuracy for name, cell in cells.items() if cell is not None}
    others = {name: value for name, value in run.settings.items() if name != paper.ablated}
    return AblationRow(benchmark, method, describe(others), variants, theirs)


def _cells(row: AblationRow) -> tuple[object, ...]:
    pairs = ((row.ours.get(name), row.paper.get(name)) for name in VARIANTS)
    return tuple(value for pair in pairs for value in pair)


def _as_dict(row: AblationRow) -> dict[str, Any]:
    found: dict[str, Any] = {"benchmark": row.benchmark, "method": row.method, "others": row.settings}
    for name in VARIANTS:
        ours = run_as_dict(row.ours[name]) if name in row.ours else {}
        found[name] = {key: ours.get(key) for key in ("run", "accuracy", "std", "seeds")}
        found[name]["paper"] = row.paper.get(name)
    return found
