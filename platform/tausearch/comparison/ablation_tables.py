"""The ablations of final runs beside the paper's Tables 2 and 6: a method a line, what is regularised in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tausearch.comparison.cells import label, score_text
from tausearch.comparison.paper import PaperResults, paper_results
from tausearch.comparison.printing import Form, final_runs, nothing, print_text, say
from tausearch.comparison.rows import departures
from tausearch.comparison.runs import FinalRun, describe, standing
from tausearch.comparison.terminal import show_sheets
from tausearch.presentation import (
    Table,
    as_csv,
    as_markdown,
    console,
    numbers,
    percent,
    print_json,
    record_table,
    tool,
    words,
)
from tausearch.runs import Storage

VARIANTS = ("all", "head", "none")


@dataclass(frozen=True)
class AblationRow:
    """A method on a benchmark with everything regularised, its head alone, and nothing.

    Attributes:
        benchmark: Name.
        method: Name.
        settings: What else makes it another experiment, as text; empty for the method as it is.
        ours: Variant to the final run that stands for it.
        paper: Variant to the paper's final accuracy, percent; empty where ours cannot be compared with it.
    """

    benchmark: str
    method: str
    settings: str
    ours: dict[str, FinalRun]
    paper: dict[str, float]


def ablations(runs: Sequence[FinalRun], paper: PaperResults, benchmarks: Sequence[str] = ()) -> list[AblationRow]:
    """Put the variants of a method together.

    Runs stand together that differ in what is regularised alone: same benchmark, method, protocol, other settings.

    Args:
        runs: Final runs, oldest first.
        paper: The paper's results.
        benchmarks: Which to show; by default all that have a run.

    Returns:
        A row for each method with at least two variants of ours, or which the paper ablates where we have a run.
    """
    groups: dict[str, dict[str, FinalRun]] = {}
    for run in standing(runs, lambda each: (_group(each, paper), _variant(each, paper))):
        groups.setdefault(repr(_group(run, paper)), {})[_variant(run, paper)] = run
    found = [_row(variants, paper) for variants in groups.values()]
    shown = [row for row in found if len(row.ours) > 1 or len(row.paper) > 1]
    wanted = [row for row in shown if not benchmarks or row.benchmark in benchmarks]
    order = {method: number for number, method in enumerate(paper.methods)}
    return sorted(wanted, key=lambda row: (row.benchmark, order.get(row.method, len(order))))


def show_ablations(storage: Storage, benchmarks: Sequence[str], form: Form) -> None:
    """Print the ablations of final runs beside the paper's.

    Args:
        storage: Storage root that holds the runs.
        benchmarks: The benchmarks to show; empty for all that have a run.
        form: The form in which to print.

    Raises:
        InputError: If a benchmark is unknown.
    """
    runs, without = final_runs(storage, benchmarks)
    if not runs and form != "json":
        nothing(storage, without, form)
        return
    rows = ablations(runs, paper_results(), benchmarks)
    if form in ("json", "csv"):
        records = [_as_dict(row) for row in rows]
        print(as_csv(record_table(records)), end="") if form == "csv" else print_json({"rows": records})
    elif not rows:
        say(f"no ablations; make one with: {tool()} train BEST.yaml --set {paper_results().ablated}=none", form)
    elif form == "table":
        show_sheets(ablation_sheets(rows), console())
    else:
        print_text(ablation_sheets(rows), form)


def as_ablation_text(runs: Sequence[FinalRun]) -> str:
    """Return the ablations of final runs as Markdown."""
    return as_markdown(ablation_sheets(ablations(runs, paper_results())))


def ablation_sheets(rows: Sequence[AblationRow]) -> list[Table]:
    """Return a table per benchmark: the accuracy of ours and the paper's for each variant."""
    tables = []
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        columns = words("method")
        for variant in VARIANTS:
            columns += numbers(f"{variant}: ours", format=score_text) + numbers(f"{variant}: paper", format=percent)
        title = f"{benchmark}: final accuracy by what is regularised, percent"
        tables.append(Table(title, columns, [_cells(row) for row in rows if row.benchmark == benchmark]))
    return tables


def _group(run: FinalRun, paper: PaperResults) -> tuple[object, ...]:
    others = {name: value for name, value in run.settings.items() if name != paper.ablated}
    return (run.spec.benchmark, run.spec.method, sorted(others.items()), run.tuned_on, run.conditions)


def _variant(run: FinalRun, paper: PaperResults) -> str:
    return str(run.marks.get(paper.ablated, VARIANTS[0]))


def _row(variants: dict[str, FinalRun], paper: PaperResults) -> AblationRow:
    run = next(iter(variants.values()))
    benchmark, method = run.spec.benchmark, run.spec.method
    cells = {} if departures(run, paper) else {v: paper.cell(benchmark, method, v) for v in VARIANTS}
    theirs = {variant: cell.accuracy for variant, cell in cells.items() if cell is not None}
    others = {name: value for name, value in run.settings.items() if name != paper.ablated}
    return AblationRow(benchmark, method, describe(others), variants, theirs)


def _cells(row: AblationRow) -> tuple[object, ...]:
    ours = {variant: run.accuracy for variant, run in row.ours.items()}
    pairs = ((ours.get(variant), row.paper.get(variant)) for variant in VARIANTS)
    return (label(row.method, row.settings), *(value for pair in pairs for value in pair))


def _as_dict(row: AblationRow) -> dict[str, Any]:
    found: dict[str, Any] = {"benchmark": row.benchmark, "method": row.method, "others": row.settings}
    for variant in VARIANTS:
        ours = row.ours.get(variant)
        found[variant] = {
            "run": None if ours is None else ours.spec.name,
            "accuracy": None if ours is None else ours.accuracy.mean,
            "std": None if ours is None else ours.accuracy.std,
            "seeds": None if ours is None else ours.accuracy.seeds,
            "paper": row.paper.get(variant),
        }
    return found
