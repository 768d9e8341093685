"""The cells of a single run: a search with the final runs of its choice, or a final run with its search."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from tausearch.reports.html.views import ReportCell
from tausearch.runs import (
    FinalSpec,
    MultiSearchSpec,
    RunDirectory,
    SearchSpec,
    Storage,
    choice_remark,
    finals_of,
    read_spec,
    read_trials,
    search_of,
    unreadable_finals_of,
)
from trainables.errors import InputError


def cells_of(storage: Storage, name: str) -> list[ReportCell]:
    """Return what the page of a run shows: `cell_of`, and of a search on several benchmarks a final run on each."""
    cell, search = cell_of(storage, name), read_spec(storage.run(name))
    if not isinstance(search, MultiSearchSpec):
        return [cell]
    finals = _finals_of(storage, search)
    on_each = [[spec for spec in finals if spec.benchmark == benchmark] for benchmark in search.parts]
    whole = replace(cell, final=None, others=(), state="search")
    return [whole, *(_alone(storage, found) for found in on_each if found)]


def _alone(storage: Storage, finals: Sequence[FinalSpec]) -> ReportCell:
    *others, final = finals
    return ReportCell(final.benchmark, final.method, None, storage.run(final.name), "final run", tuple(others))


def cell_of(storage: Storage, name: str) -> ReportCell:
    """Return a search with a final run of its choice and the names of others, or a final run with its search.

    That is a final run of what the search chose (without `--set`) in the benchmark's own class order. Without such a
    run it is one over class orders, and without these one with overrides. Of equals it is the newest that trains what
    the search chooses now. A run whose specification or record we may not read is an error.
    """
    directory = storage.run(name)
    spec = read_spec(directory)
    with suppress(InputError):  # the page says what a damaged record has lost
        read_trials(spec, directory)
    if spec.purpose == "final":
        search = _search_of(storage, spec)
        state = "final run" if search is None else "search and final run"
        return ReportCell(spec.benchmark, spec.method, search, directory, state)
    unreadable = tuple(f"{each}; may be a final run of this search" for each in unreadable_finals_of(storage, spec))
    if not (finals := _finals_of(storage, spec)):
        return ReportCell(spec.benchmark, spec.method, directory, None, "search", unreadable=unreadable)
    *others, final = finals
    state = "search and final run"
    return ReportCell(spec.benchmark, spec.method, directory, storage.run(final.name), state, tuple(others), unreadable)


def _finals_of(storage: Storage, search: SearchSpec) -> list[FinalSpec]:
    """Return the final runs of a search: those with overrides, those over class orders, the others.

    Of each kind those of an earlier choice come first; then the oldest does.
    """

    def rank(spec: FinalSpec) -> tuple[bool, ...]:
        current = not choice_remark(storage.run(spec.name), spec)
        return not spec.overrides, spec.protocol.class_orders is None, current

    return sorted((spec for spec in finals_of(storage, search) if _belong(search, spec)), key=rank)


def _search_of(storage: Storage, final: FinalSpec) -> RunDirectory | None:
    if (directory := search_of(storage, final)) is None:
        return None
    try:
        search = read_spec(directory)
    except InputError:
        return directory  # the page says why it cannot be read
    return directory if search.purpose == "search" and _belong(search, final) else None


def _belong(search: SearchSpec, final: FinalSpec) -> bool:
    """Whether a final run trains what a search chose, on the benchmark that it was searched on."""
    benchmarks = search.parts if isinstance(search, MultiSearchSpec) else (search.benchmark,)
    return final.method == search.method and final.benchmark in benchmarks
