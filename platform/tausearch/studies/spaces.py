"""The search space of a method on a benchmark, checked by the method."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from checked_input.names import choices
from search_spaces import Choices, Range, ResolvedSpace, Scalar, load_space, read_space_file
from trainables.data import BENCHMARKS, reference
from trainables.errors import Faults, InputError, faults_of
from trainables.methods import MethodEntry, Scenario, get_method


def space_of(
    method: str,
    benchmark: str,
    file: Path | None,
    overrides: Mapping[str, Scalar],
    suited: Mapping[str, Scalar] | None = None,
    *,
    grid: bool = False,
    begun_with: Collection[str] = (),
) -> ResolvedSpace:
    """Return the space that a search uses, checked by the method; see `search_spaces.load_space` for the arguments.

    What has no effect with the values that are fixed is not searched, but fixed at its start; a search that was
    begun with it goes on with it. With `grid` the search tries the start and the grid values alone, and nothing between
    them.

    Raises:
        InputError: If there is no such method, or it refuses a value; names the place, value and allowed ones.
    """
    entry = get_method(method)
    known = [each.name for each in fields(entry.config)]
    if file is None and entry.space is not None and not entry.space.is_file():
        raise InputError(f"method {method!r}: has no search space; write {entry.space}, or give a file with --space")
    require_hyperparameters(entry, overrides)
    load = partial(load_space, method, benchmark, own=entry.space, known=known)
    try:
        space = load(file=file, overrides=overrides, benchmarks=BENCHMARKS, named=_named, suited=suited)
    except InputError:
        if file is not None:
            _require_choices(entry, load() if entry.space is None or entry.space.is_file() else None, file)
        raise
    own = space if entry.space is not None and not entry.space.is_file() else load()
    for name, value in overrides.items():
        with faults_of(f"--set {name}={value}"):
            entry.parse({**own.fixed, **own.start, name: value})
    with faults_of(str(file or entry.space or f"{method}.yaml")):
        require_space_fits(entry, space, grid=grid)
    return space.without(entry.idle_with(space.fixed).keys() - set(begun_with))


def _named(text: str) -> str:
    """Return the name of a benchmark in a user's file as a search has it: with an absolute path, without options."""
    ref = reference(text)
    if "?" in text:
        raise InputError(f"benchmark {text!r}: a space is that of all its options; write {text.partition('?')[0]!r}")
    return ref.name


def absent_images(file: Path, searched: Collection[str]) -> str:
    """Return a line on the images that a user's file names and that are neither here nor searched; empty if all are.

    One file may have the values for images of several machines, so this is no error.
    """
    found = read_space_file(file)
    names = dict.fromkeys(name for section in (found.paper, found.start, found.fixed) for name in section)
    refs = {name: reference(name) for name in names if ":" in name}
    own = {name: ref.path for name, ref in refs.items() if ref.path is not None and ref.name not in searched}
    away = [name for name, path in own.items() if not os.path.exists(path)]
    return f"{file}: no such file or folder here: {', '.join(away)}; their values are left out" if away else ""


def _require_choices(entry: MethodEntry, own: ResolvedSpace | None, file: Path) -> None:
    """Refuse a choice of the user's file that the method does not know, which no start of the file can mend."""
    start, theirs = {} if own is None else {**own.fixed, **own.start}, read_space_file(file)
    with faults_of(str(file)):
        for name, dimension in theirs.space.items():
            for value in dimension.choices if isinstance(dimension, Choices) else ():
                entry.parse({**start, name: value})


def require_hyperparameters(entry: MethodEntry, values: Mapping[str, Scalar], origin: str = "--set ") -> None:
    """Refuse values whose names the method does not know, all at once; raises an `InputError` that names the origin."""
    known, faults = [each.name for each in fields(entry.config)], Faults()
    for name, value in values.items():
        with faults:
            if name not in known:
                raise InputError(f"{origin}{name}={value}: unknown hyperparameter {name!r}; {choices(name, known)}")
    faults.raise_all()


def require_space_fits(entry: MethodEntry, space: ResolvedSpace, *, grid: bool = False) -> None:
    """Refuse a space whose start, ends, grid values, or, without `grid`, numbers between them the method refuses."""
    for hyperparameters in _probes(space):
        entry.parse(hyperparameters)
    for name, dimension in space.space.items():
        if isinstance(dimension, Range) and not dimension.integer and not grid:
            between = min(dimension.low + 0.5, dimension.high)  # no whole number where both ends are whole
            try:
                entry.parse({**space.fixed, **space.start, name: between})
            except InputError as error:
                raise InputError(f"{error}, which the search may draw; give its range `integer: true`") from error


def require_runs(entry: MethodEntry, space: ResolvedSpace, scenario: Scenario) -> None:
    """Raise the method's `InputError` if it cannot run with the tasks and the backbone at one of these values."""
    for hyperparameters in _probes(space):
        entry.validate(entry.parse(hyperparameters), scenario)


def _probes(space: ResolvedSpace) -> Iterator[dict[str, Scalar]]:
    """Yield the start of a space, then the start with one hyperparameter at each end and grid value."""
    start = {**space.fixed, **space.start}
    yield start
    for name, dimension in space.space.items():
        ends = (dimension.low, dimension.high) if isinstance(dimension, Range) else ()
        for value in (*ends, *dimension.grid):
            yield {**start, name: dimension.typed(value)}


def defaults(space: ResolvedSpace) -> dict[str, Any]:
    """Return the method's hyperparameters that the space does not have, with their defaults."""
    named = {*space.space, *space.fixed}
    return {each.name: each.default for each in fields(get_method(space.method).config) if each.name not in named}
