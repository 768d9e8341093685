"""A campaign in MLflow: the table of each benchmark, and the address of its page."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress

from checked_input.text_files import read_json
from tausearch.campaigns.cells import CellRuns, gone_cells
from tausearch.campaigns.status import CampaignStatus, CellStatus
from tausearch.reports import paper_results
from tausearch.runs import CampaignDirectory, Storage, read_spec, replace_text
from tausearch.tracking import TableRow, log_benchmark_table, reason, without_secrets
from trainables.errors import InputError

LOCAL = "http://127.0.0.1:5000"  # of `tausearch runs ui`


def track_tables(
    storage: Storage,
    status: CampaignStatus,
    tracking_uri: str | None = None,
    write: Callable[..., str] = log_benchmark_table,
) -> dict[str, str]:
    """Tag the runs of a campaign's table in MLflow, by default in the store that has them, with the paper's accuracy.

    Runs of cells that have left the campaign's file lose the tag. `write` writes a table as `log_benchmark_table` does,
    perhaps in another process.

    Returns:
        Benchmark to the page that shows its final runs side by side, the best first.

    Raises:
        InputError: If MLflow cannot be written.
    """
    pages: dict[str, str] = {}
    by_benchmark: dict[str, list[CellStatus]] = {}
    for each in status.cells:
        if each.final is not None and (tracking_uri is not None or "mlflow" in each.final.spec.trackers):
            by_benchmark.setdefault(each.runs.benchmark, []).append(each)
    finals = {benchmark: cells[0].final for benchmark, cells in by_benchmark.items()}
    stores = {benchmark: final.spec.tracking_uri for benchmark, final in finals.items() if final is not None}
    gone = gone_cells(status.directory)
    for benchmark, store in _stores_of(storage, gone).items():
        stores.setdefault(benchmark, store)
    for benchmark, store in stores.items():  # those of cells that have left the file come last
        own, cells = tracking_uri or store, by_benchmark.get(benchmark, [])
        rows, left = [_row(each) for each in cells], [each.method for each in gone if each.benchmark == benchmark]
        if not cells:
            _save_pages(status.directory, pages)  # a store of the past may be gone
        try:
            page = write(storage, own or storage.mlflow_uri, benchmark, status.name, rows, left)
        except Exception as error:  # MLflow, SQLAlchemy and requests raise kinds of their own
            raise InputError(
                f"campaign {status.name!r}: MLflow cannot be written for {benchmark} ({reason(error)})"
            ) from error
        if cells:
            server = without_secrets(own) if own and own.startswith("http") else LOCAL
            pages[benchmark] = f"{server}/{page}"
    _save_pages(status.directory, pages)
    return pages


def _save_pages(directory: CampaignDirectory, pages: dict[str, str]) -> None:
    replace_text(directory.pages_file, json.dumps(pages, indent=2) + "\n")


def read_pages(directory: CampaignDirectory) -> dict[str, str]:
    """Return the addresses at which MLflow shows a campaign's tables; empty before they are written."""
    try:
        pages = read_json(directory.pages_file)
    except (OSError, ValueError):
        return {}
    texts = isinstance(pages, dict) and all(isinstance(page, str) for page in pages.values())
    return pages if texts else {}


def _stores_of(storage: Storage, cells: Sequence[CellRuns]) -> dict[str, str | None]:
    """Return benchmark to the tracking URI of the final run of a cell that MLflow has."""
    found: dict[str, str | None] = {}
    for cell in cells:
        with suppress(InputError):  # it was deleted, or cannot be read
            spec = read_spec(storage.run(cell.final))
            if "mlflow" in spec.trackers:
                found[cell.benchmark] = spec.tracking_uri
    return found


def _row(each: CellStatus) -> TableRow:
    runs = tuple(run.spec for run in (each.search, each.final) if run is not None)
    cell = paper_results().cell(each.runs.benchmark, each.runs.method)
    return TableRow(each.runs.method, runs, None if cell is None else cell.accuracy)
