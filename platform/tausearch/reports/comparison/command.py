"""The command `tausearch compare`, from its options to the printed tables."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tausearch.presentation import Table, as_csv, print_notices, rows_as_table, tool
from tausearch.reports.comparison.comparison import Comparison, MatrixOrder, compare
from tausearch.reports.comparison.csv_rows import (
    comparison_csv_rows,
    matrices_as_dicts,
    rows_as_dicts,
    transfer_csv_rows,
)
from tausearch.reports.comparison.figure import draw, drawn_rows
from tausearch.reports.comparison.matrix import Matrix, result_matrix
from tausearch.reports.comparison.matrix_tables import matrix_table
from tausearch.reports.comparison.paper import paper_results
from tausearch.reports.comparison.printing import SCORES, ComparisonOutput, OutputFormat, show
from tausearch.reports.comparison.runs import FinalRunResults
from tausearch.reports.comparison.tables import INCREMENTAL, POOLED, comparison_tables, transfer_tables
from tausearch.reports.comparison.transfers import changed_by_hand, transfer
from tausearch.runs import Storage, require_picture, shown_benchmark, shown_benchmarks, storage_option
from trainables.errors import InputError
from trainables.user_code import file_name

_LONGEST_STEM = 150  # letters of the name of a picture


@dataclass(frozen=True)
class ComparisonScope:
    """What a comparison shows, besides named benchmarks; `with_paper` of the matrix alone."""

    runs: Collection[str] | None = None  # names of final runs; None for all
    order: MatrixOrder = MatrixOrder()
    with_paper: bool = False
    campaign: str = ""  # whose runs these are


def show_comparison(
    storage: Storage,
    benchmarks: Sequence[str],
    output_format: OutputFormat,
    figure: Path | None,
    scope: ComparisonScope | None = None,
) -> None:
    """Print final runs beside the paper's results; see `printing.show`.

    The picture is drawn to `figure`, which is refused if it cannot be written. By default it is `compare.png` in the
    storage folder, of some benchmarks or a campaign with their names in its own.
    """
    require_picture(storage, figure, "--figure")
    chosen = scope or ComparisonScope()

    def answer(runs: list[FinalRunResults], without: list[str]) -> ComparisonOutput:
        if chosen.runs is not None:
            runs = [run for run in runs if run.spec.name in chosen.runs]
            without = [name for name in without if name in chosen.runs]
        named = list(dict.fromkeys(benchmarks))
        comparisons = compare(runs, paper_results(), named, chosen.order)
        usual = _usual_figure(storage, chosen.campaign, named)
        drawn = _draw(comparisons, figure, usual) if runs or figure is not None else None
        rows = rows_as_dicts(comparisons)
        about = {"source": paper_results().source, "figure": None if drawn is None else str(drawn)}
        content = {**about, "rows": rows, "without_results": without}
        train = f"{tool()} train BEST.yaml{storage_option(storage.root)}"
        missing = list(_missing(comparisons, {run.spec.benchmark for run in runs}, train))
        if chosen.runs is not None and not runs:
            missing.insert(0, "no final run of this campaign has a finished seed yet")
        waiting = [f"without results yet: {', '.join(without)}"] if without else []
        csv_rows = comparison_csv_rows(comparisons)
        order = replace(chosen.order, benchmarks=named or chosen.order.benchmarks)
        matrix = result_matrix(runs, paper_results(), order, with_paper=chosen.with_paper)
        table, lack = matrix_table(matrix, paper_results()), _lack(matrix) if chosen.with_paper else ""
        empty = "" if matrix.rows else "\n".join([*missing, *waiting])
        notes = [*missing, *_notes(comparisons), *waiting]
        return ComparisonOutput(content, csv_rows, _tables(comparisons), empty, notes, drawn, table, lack)

    show(storage, benchmarks, output_format, answer)


def _lack(matrix: Matrix) -> str:
    own = [name for name in matrix.benchmarks if name not in paper_results().benchmarks]
    return f"--paper: the paper has no results on {', '.join(shown_benchmarks(own).values())}" if own else ""


def as_tables(runs: Sequence[FinalRunResults], order: MatrixOrder | None = None) -> list[Table]:
    """Return the tables of final runs beside the paper's results: comparable runs, and the others."""
    return _tables(compare(runs, paper_results(), order=order or MatrixOrder()))


def as_texts(runs: Sequence[FinalRunResults], order: MatrixOrder) -> dict[OutputFormat, str]:
    """Return final runs as Markdown, LaTeX and CSV: methods by benchmarks, and beside the paper's results."""
    comparisons = compare(runs, paper_results(), order=order)
    csv_rows = comparison_csv_rows(comparisons)
    table = matrix_table(result_matrix(runs, paper_results(), order), paper_results())
    answer = ComparisonOutput({}, csv_rows, _tables(comparisons), matrix=table)
    return {"markdown": answer.markdown, "latex": answer.latex, "csv": as_csv(rows_as_table(csv_rows))}


def show_transfer(storage: Storage, benchmarks: Sequence[str], output_format: OutputFormat) -> None:
    """Print the transfer matrix of each method, with the named judging benchmarks; see `printing.show`."""
    train = f"{tool()} train BEST.yaml{storage_option(storage.root)} --benchmark OTHER"
    none = f"no hyperparameters were judged on a benchmark they were not tuned on; do it with: {train}"
    notes = [SCORES, "loss: points below hyperparameters tuned on the judged benchmark itself (2 sd)"]

    def answer(runs: list[FinalRunResults], without: list[str]) -> ComparisonOutput:
        matrices, changed = transfer(runs, benchmarks), changed_by_hand(runs, benchmarks)
        others = [name for matrix in matrices for name in matrix.left_out]
        left_out = {
            "judged under another protocol or on other images than the rest": others,
            "--set changed what was tuned": changed,
        }
        lack = [f"left out, because {why}: {', '.join(names)}" for why, names in left_out.items() if names]
        plain = matrices_as_dicts(matrices)
        content = {"matrices": plain, "changed_by_hand": list(changed), "without_results": without}
        csv_rows, tables = transfer_csv_rows(matrices), transfer_tables(matrices)
        return ComparisonOutput(content, csv_rows, tables, none, notes, lack="\n".join(lack))

    show(storage, benchmarks, output_format, answer)


def _tables(comparisons: Sequence[Comparison]) -> list[Table]:
    return [table for each in comparisons for table in comparison_tables(each, paper_results())]


def _missing(comparisons: Sequence[Comparison], ran: Collection[str], train: str) -> Iterator[str]:
    """Yield a line for each benchmark without a final run: what is shown in its place, and how to make one."""
    there = f"; there are final runs on: {', '.join(map(shlex.quote, sorted(ran)))}" if ran else ""
    for comparison in comparisons:
        if comparison.benchmark not in ran:
            lack = "all rows are the paper's" if comparison.rows else f"and the paper does not have it{there}"
            make = f"make one with: {train} --benchmark {shlex.quote(comparison.benchmark)}"
            yield f"{comparison.benchmark}: no final run, {lack}; {make}"


def _notes(comparisons: Sequence[Comparison]) -> Iterator[str]:
    shown = {name for table in _tables(comparisons) for name in table.header}
    if shown:
        yield "ours: mean ± standard deviation (seeds)"
        if INCREMENTAL in shown:
            yield f"{INCREMENTAL}: the mean over t of the accuracy after task t, over the tasks seen by then"
        if POOLED in shown:
            yield f"{POOLED}: ours over the images of all tasks together; ours is the mean over tasks"
        if "within 2 sd" in shown:
            yield "within 2 sd: in parentheses, two standard deviations of the difference"
    for comparison in comparisons:
        for run in (row.ours for row in (*comparison.rows, *comparison.not_compared)):
            if run is not None and run.choice_remark:
                yield f"{run.spec.name}: {run.choice_remark}"


def _usual_figure(storage: Storage, campaign: str, benchmarks: Sequence[str]) -> Path:
    """Return the file of a picture that no option names, another one for each choice of runs.

    Its name ends in a digest where it does not tell all that was chosen: of paths, long names, other scripts, and many
    benchmarks.
    """
    of = [*([f"campaign-{campaign}"] if campaign else []), *map(shown_benchmark, benchmarks)]
    path = storage.comparison_figure
    stem, whole = file_name("-".join([path.stem, *of])), " ".join(benchmarks)
    cut = any(shown_benchmark(each) != each for each in benchmarks)
    if cut or not whole.isascii() or len(stem) > _LONGEST_STEM:
        stem = f"{stem[:_LONGEST_STEM]}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
    return path.with_stem(stem)


def _draw(comparisons: Sequence[Comparison], figure: Path | None, usual: Path) -> Path | None:
    """Draw the picture. Unasked, nothing is drawn without rows, and a file that cannot be written is no error."""
    path = figure or usual
    if any(map(drawn_rows, comparisons)):
        path.parent.mkdir(parents=True, exist_ok=True)  # `require_picture` has seen that it can be
    elif figure is None:
        return None
    try:
        draw(comparisons, paper_results(), path)
    except InputError as error:
        if figure is not None:
            raise
        print_notices(error)
        return None
    return path
