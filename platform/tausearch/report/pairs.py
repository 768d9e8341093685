"""The cells of a single run: a search with the final runs of its choice, or a final run with its search."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from tausearch.report.views import ReportCell
from tausearch.runs import FinalSpec, MultiSearchSpec, RunDirectory, SearchSpec, Storage, read_spec, read_trials
from trainables.errors import InputError


def cells_of(storage: Storage, name: str) -> list[ReportCell]:
    """Return what the page of a run shows: `cell_of`, and of a search on several benchmarks a final run on each.

    Raises:
        InputError: If there is no such run, or its specification cannot be read.
        StorageError: If we may not read the record.
    """
    cell, search = cell_of(storage, name), read_spec(storage.run(name))
    if not isinstance(search, MultiSearchSpec):
        return [cell]
    finals = {spec.benchmark: spec for spec in _finals_of(storage, search)}  # the newest on each
    whole = replace(cell, final=None, state="search")
    return [whole, *(_alone(storage, finals[name]) for name in search.parts if name in finals)]


def _alone(storage: Storage, final: FinalSpec) -> ReportCell:
    return ReportCell(final.benchmark, final.method, None, storage.run(final.name), "final run")


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
    finals = _finals_of(storage, search)
    return storage.run(finals[-1].name) if finals else None


def _finals_of(storage: Storage, search: SearchSpec) -> list[FinalSpec]:
    specs, _ = storage.read_each(read_spec)
    return [spec for spec in specs if spec.purpose == "final" and _belong(search, spec)]


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
