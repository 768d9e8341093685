"""The cell of a single run: a search with the final run of its choice, or a final run with its search."""

from __future__ import annotations

from contextlib import suppress

from tausearch.report.views import ReportCell
from tausearch.runs import FinalSpec, MultiSearchSpec, RunDirectory, SearchSpec, Storage, read_spec, read_trials
from trainables.errors import InputError


def cell_of(storage: Storage, name: str) -> ReportCell:
    """Return a search with the newest final run of its choice, or a final run with its search.

    Raises:
        InputError: If there is no such run, or its specification cannot be read.
        StorageError: If we may not read the record.
    """
    directory = storage.run(name)
    spec = read_spec(directory)
    with suppress(InputError):  # the page says what a damaged record has lost
        read_trials(spec, directory)
    search, final = (
        (directory, _final_of(storage, spec)) if spec.purpose == "search" else (_search_of(storage, spec), directory)
    )
    state = " and ".join(name for name, run in (("search", search), ("final run", final)) if run is not None)
    return ReportCell(spec.benchmark, spec.method, search, final, state)


def _final_of(storage: Storage, search: SearchSpec) -> RunDirectory | None:
    specs, _ = storage.read_each(read_spec)
    finals = [spec for spec in specs if spec.purpose == "final" and _belong(search, spec)]
    return storage.run(finals[-1].name) if finals else None


def _search_of(storage: Storage, final: FinalSpec) -> RunDirectory | None:
    if final.source is None or not storage.run_exists(final.source):
        return None
    directory = storage.run(final.source)
    try:
        search = read_spec(directory)
    except InputError:
        return directory  # the page says why it cannot be read
    return directory if search.purpose == "search" and _belong(search, final) else None


def _belong(search: SearchSpec, final: FinalSpec) -> bool:
    """Whether a final run trains what a search chose, on the benchmark that it was searched on."""
    benchmarks = search.parts if isinstance(search, MultiSearchSpec) else (search.benchmark,)
    return (final.source, final.method) == (search.name, search.method) and final.benchmark in benchmarks
