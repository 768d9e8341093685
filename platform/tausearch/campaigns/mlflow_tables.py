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
from trainables.errors import Faults, InputError

LOCAL = "http://127.0.0.1:5000"  # of `tausearch runs ui`


def track_tables(
    storage: Storage,
    status: CampaignStatus,
    tracking_uri: str | None = None,
    write: Callable[..., str] = log_benchmark_table,
) -> dict[str, str]:
    """Tag the runs of a campaign's table in MLflow, by default in the stores that have them, with the paper's accuracy.

    Runs of cells that have left the campaign's file lose the tag. `write` writes a table as `log_benchmark_table` does,
    perhaps in another process.

    Returns:
        Benchmark to the page that shows its final runs side by side, the best first; of several stores that of the last
        driver.

    Raises:
        InputError: If a store of MLflow cannot be written; the others are.
    """
    places: dict[tuple[str, str | None], list[CellStatus]] = {}
    for each in status.cells:
        if each.final is not None and (tracking_uri is not None or "mlflow" in each.final.spec.trackers):
            place = (each.runs.benchmark, tracking_uri or each.final.spec.tracking_uri)
            places.setdefault(place, []).append(each)
    gone = gone_cells(status.directory)
    for benchmark, store in _places_of(storage, gone):
        places.setdefault((benchmark, tracking_uri or store), [])
    shown = {benchmark for (benchmark, _), cells in places.items() if cells}
    pages = {benchmark: page for benchmark, page in read_pages(status.directory).items() if benchmark in shown}
    faults = Faults()  # a store of the past may be gone
    # The page is in the last store that has cells; that of the last driver has those to come.
    for place in sorted(places, key=lambda place: place[1] == status.saved.tracking_uri):
        (benchmark, store), cells = place, places[place]
        rows, left = [_row(each) for each in cells], [each.method for each in gone if each.benchmark == benchmark]
        with faults:
            page = _written(write, storage, store or storage.mlflow_uri, benchmark, status.name, rows, left)
            if cells:
                server = without_secrets(store) if store and store.startswith("http") else LOCAL
                pages[benchmark] = f"{server}/{page}"
    replace_text(status.directory.pages_file, json.dumps(pages, indent=2) + "\n")
    faults.raise_all()
    return pages


def _written(
    write: Callable[..., str], storage: Storage, uri: str, benchmark: str, campaign: str, *table: Sequence[object]
) -> str:
    try:
        return write(storage, uri, benchmark, campaign, *table)
    except Exception as error:  # MLflow, SQLAlchemy and requests raise kinds of their own
        raise InputError(
            f"campaign {campaign!r}: MLflow cannot be written for {benchmark} ({reason(error)})"
        ) from error


def read_pages(directory: CampaignDirectory) -> dict[str, str]:
    """Return the addresses at which MLflow shows a campaign's tables; empty before they are written."""
    try:
        pages = read_json(directory.pages_file)
    except (OSError, ValueError):
        return {}
    texts = isinstance(pages, dict) and all(isinstance(page, str) for page in pages.values())
    return pages if texts else {}


def _places_of(storage: Storage, cells: Sequence[CellRuns]) -> list[tuple[str, str | None]]:
    """Return benchmark and tracking URI of the final runs of cells that MLflow has."""
    found: list[tuple[str, str | None]] = []
    for cell in cells:
        with suppress(InputError):  # it was deleted, or cannot be read
            spec = read_spec(storage.run(cell.final))
            if "mlflow" in spec.trackers:
                found.append((cell.benchmark, spec.tracking_uri))
    return found


def _row(each: CellStatus) -> TableRow:
    runs = tuple(run.spec for run in (each.search, each.final) if run is not None)
    cell = paper_results().cell(each.runs.benchmark, each.runs.method)
    return TableRow(each.runs.method, runs, None if cell is None else cell.accuracy)
