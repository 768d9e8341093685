"""The files that a campaign writes: best files, the comparison with the paper, and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tausearch.campaigns.cells import CellRuns, gone_cells, read_cells
from tausearch.campaigns.status import CampaignStatus, CellStatus
from tausearch.presentation import Plot, Table, accuracy_plot, draw_figure, print_notices, save
from tausearch.reports import (
    ComparisonScope,
    FinalRunResults,
    Matrix,
    MatrixOrder,
    ReportCell,
    RunPlots,
    as_tables,
    as_texts,
    cell_link,
    page_matrix,
    paper_results,
    read_final_run,
    result_matrix,
    write_report,
)
from tausearch.runs import CampaignDirectory, Storage, read_spec, read_trials, replace_text, shown_benchmark
from tausearch.studies import BestFile, best_of_run, load_best, unsearched_best_file
from trainables.data import reference
from trainables.errors import InputError
from trainables.user_code import file_name

_SUFFIXES = {"markdown": ".md", "latex": ".tex", "csv": ".csv"}


def write_outputs(storage: Storage, status: CampaignStatus, drawn: Mapping[str, RunPlots] | None = None) -> list[Path]:
    """Write best files, the comparison and at the end the report, with plots `drawn` before; returns the files."""
    _remove_former_files(storage, status)
    best = [copy_best(storage, status.directory, each.runs) for each in status.cells]
    tables = write_comparison(storage, status.directory)
    report = []
    if status.finished:
        results = _Results(storage, status, drawn or {})
        report = [_write_report(results), *_draw_accuracies(results)]
    return [*(path for path in best if path is not None), *tables, *report]


def copy_best(storage: Storage, directory: CampaignDirectory, cell: CellRuns) -> Path | None:
    """Write the chosen configuration of a cell; without a search, the configuration of its final run."""
    best = _choice(storage, cell)
    if best is None:
        return None
    target = _best_file_of(directory, cell)
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_text(target, best.as_yaml())
    return target


def _choice(storage: Storage, cell: CellRuns) -> BestFile | None:
    """Return the best file of a cell's search, from the record if it is lost or damaged; None before a choice."""
    if cell.search is None:
        return unsearched_best_file(read_spec(storage.run(cell.final))) if storage.run_exists(cell.final) else None
    with suppress(InputError):
        return load_best(storage.run(cell.search).best_file)  # all trials take ten times as long
    with suppress(InputError):
        return best_of_run(storage, cell.search, print_notices)
    return None


def _best_file_of(directory: CampaignDirectory, cell: CellRuns) -> Path:
    return directory.best_file(reference(cell.benchmark).slug, file_name(cell.method))


def _figure_of(directory: CampaignDirectory, benchmark: str) -> Path:
    return directory.path / "figures" / f"{reference(benchmark).slug}.png"


def _remove_former_files(storage: Storage, status: CampaignStatus) -> None:
    """Delete what was written of cells that are gone and whose runs are still there, which have it, too."""
    figures = {_figure_of(status.directory, cell.benchmark) for cell in status.cell_runs}
    gone = gone_cells(status.directory)
    for cell in (each for each in gone if storage.run_exists(each.search or each.final)):
        if (figure := _figure_of(status.directory, cell.benchmark)) not in figures:
            for form in (".png", ".pdf"):
                figure.with_suffix(form).unlink(missing_ok=True)
        file = _best_file_of(status.directory, cell)
        file.unlink(missing_ok=True)
        with suppress(OSError):  # it is not empty, or not there
            file.parent.rmdir()


def write_campaign_report(storage: Storage, status: CampaignStatus, file: Path | None = None) -> Path:
    """Write one HTML file of all cells, with the table beside the paper's; by default in the campaign's folder.

    Returns:
        The file.

    Raises:
        InputError: If the file cannot be written.
    """
    return _write_report(_Results(storage, status), file)


def not_comparable_cells(storage: Storage, status: CampaignStatus) -> dict[str, tuple[str, ...]]:
    """Return title to why a final run cannot be compared with others on its benchmark; only cells with reasons."""
    rows = _Results(storage, status).matrix.rows
    cells = [cell for row in rows for cell in row.cells.values()]
    reasons = {
        cell.run.spec.name: cell.not_comparable for cell in cells if cell.run is not None and cell.not_comparable
    }
    return {cell.title: reasons[cell.final] for cell in status.cell_runs if cell.final in reasons}


@dataclass(frozen=True)
class _Results:
    """What a campaign's report shows, each part read or made once."""

    storage: Storage
    status: CampaignStatus
    drawn: Mapping[str, RunPlots] = field(default_factory=dict)

    @cached_property
    def runs(self) -> list[FinalRunResults]:
        """The final runs that have results."""
        return _final_runs(self.storage, self.status.cell_runs)

    @cached_property
    def matrix(self) -> Matrix:
        """Methods by benchmarks, with places for the cells that have no result yet."""
        had, cells = {run.spec.name for run in self.runs}, self.status.cell_runs
        planned = [(cell.method, cell.benchmark) for cell in cells if cell.final not in had]
        return result_matrix(self.runs, paper_results(), matrix_order(cells), planned=planned)

    @cached_property
    def plots(self) -> dict[str, Plot]:
        """Benchmark to the plot of its methods; a line under another protocol says so in its name."""
        plots = {}
        for benchmark in self.matrix.benchmarks:
            lines = {}
            for row in self.matrix.rows:
                cell, seeds = row.cells.get(benchmark), []
                suffix = f" ({'; '.join(cell.not_comparable)})" if cell is not None and cell.not_comparable else ""
                if cell is not None and cell.run is not None:
                    with suppress(InputError):  # the page says what a damaged record has lost
                        seeds = read_trials(cell.run.spec, self.storage.run(cell.run.spec.name))
                lines[f"{row.name}{suffix}"] = seeds
            if (plot := accuracy_plot(shown_benchmark(benchmark), lines)) is not None:
                plots[benchmark] = plot
        return plots


def _write_report(results: _Results, file: Path | None = None) -> Path:
    status = results.status
    return write_report(
        f"campaign {status.name}",
        [_report_cell(results.storage, each) for each in status.cells],
        file or status.directory.report_file,
        matrix=_page_matrix(results),
        plots=list(results.plots.values()),
        comparison=as_tables(results.runs, matrix_order(status.cell_runs)),
        drawn=results.drawn,
    )


def _page_matrix(results: _Results) -> Table:
    cells = results.status.cells
    places = [(each.runs.method, each.runs.benchmark) for each in cells]
    links = {place: cell_link(number) for number, place in enumerate(places)}
    pending = {place: each.state for place, each in zip(places, cells, strict=True)}
    return page_matrix(results.matrix, paper_results(), links, pending)


def _draw_accuracies(results: _Results) -> list[Path]:
    """Draw the plots of the report as figures, too."""
    directory = results.status.directory
    (directory.path / "figures").mkdir(exist_ok=True)
    return [
        save(draw_figure(plot, f"campaign {results.status.name}"), _figure_of(directory, benchmark))
        for benchmark, plot in results.plots.items()
    ]


def matrix_order(cells: Sequence[CellRuns]) -> MatrixOrder:
    """Return methods and benchmarks in the order of the campaign's file."""
    methods, benchmarks = (list(dict.fromkeys(getattr(cell, of) for cell in cells)) for of in ("method", "benchmark"))
    return MatrixOrder(methods, benchmarks)


def selected_runs(directory: CampaignDirectory, *, with_paper: bool = False) -> ComparisonScope:
    """Return the final runs of a campaign for a comparison, in the order of its file.

    Raises:
        InputError: If there is no such campaign, or its file cannot be read.
    """
    cells = read_cells(directory).cells
    return ComparisonScope([cell.final for cell in cells], matrix_order(cells), with_paper, directory.name)


def _report_cell(storage: Storage, each: CellStatus) -> ReportCell:
    search, final = (None if run is None else storage.run(run.spec.name) for run in (each.search, each.final))
    return ReportCell(each.runs.benchmark, each.runs.method, search, final, each.reason or each.state)


def _final_runs(storage: Storage, cells: Sequence[CellRuns]) -> list[FinalRunResults]:
    """Return the final runs that have a finished seed, oldest first; unreadable runs are left out."""
    names = {cell.final for cell in cells}
    begun = [run for run in storage.runs() if run.name in names]
    found, _ = storage.read_each(read_final_run, among=begun)  # the status of a cell says what is wrong
    return [run for _, run in found if run is not None]


def write_comparison(storage: Storage, directory: CampaignDirectory) -> list[Path]:
    """Write the campaign's final runs beside the paper's results as Markdown, LaTeX and CSV; delete these without any.

    Returns:
        The files that were written.
    """
    cells = read_cells(directory).cells
    files = {form: directory.path / f"comparison{suffix}" for form, suffix in _SUFFIXES.items()}
    if not (runs := _final_runs(storage, cells)):
        for file in files.values():  # of a run that its cell had before it was started anew
            file.unlink(missing_ok=True)
        return []
    texts = as_texts(runs, matrix_order(cells))
    for form, text in texts.items():
        replace_text(files[form], text)
    return [files[form] for form in texts]
