"""Find, read and check search-space files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from checked_input.errors import InputError
from checked_input.names import choices
from checked_input.schema import Strict, fault_words, is_no_mapping, read_model
from checked_input.text_files import TextFileError, one_line, shown
from search_spaces.schema import DEFAULT, Choices, Dimension, Point, Range, ResolvedSpace, Scalar, SpaceFile, resolve
from search_spaces.values import is_number

_FOLDER = Path(__file__).parent
_KINDS: dict[object, type[Strict]] = {"range": Range, "choices": Choices}  # by the tags of `Dimension`
_BY_BENCHMARK = ("paper", "start", "fixed")
_MOST_FAULTS = 8  # said at a time
_ENTRY = "lr: {low: 0.0001, high: 0.01, log: true, grid: [0.0003, 0.003]}"
METHODS_WITH_SPACE = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


@cache
def paper_benchmarks() -> tuple[str, ...]:
    """Return the benchmarks for which the paper chose hyperparameters, in its order."""
    files = map(_own_file, METHODS_WITH_SPACE)
    return tuple(dict.fromkeys(benchmark for file in files for benchmark in file.paper))


@cache
def _own_file(method: str) -> SpaceFile:
    """Return the package's file of a method, which never changes."""
    return read_space_file(_FOLDER / f"{method}.yaml")


def _file_of(method: str, own: Path | None) -> SpaceFile:
    """Return the file of a method: the package's, or the user's own, which may be missing."""
    if own is not None:
        return read_space_file(own) if own.is_file() else SpaceFile()
    if method not in METHODS_WITH_SPACE:
        raise InputError(f"no search space for method {method!r}; {choices(method, METHODS_WITH_SPACE)}")
    return _own_file(method)


def paper_points(method: str, own: Path | None = None) -> dict[str, dict[str, Scalar]]:
    """Return the paper's and the fixed hyperparameters of a method by benchmark; see `load_space` for `own`."""
    file = _file_of(method, own)
    return {benchmark: {**file.fixed_values(benchmark), **point} for benchmark, point in file.paper.items()}


def far_off(
    method: str, values: Mapping[str, Scalar], own: Path | None = None, *, own_images: bool = False
) -> dict[str, Range]:
    """Return the range of each value outside the range in the method's own file; 0 turns a term off and is inside.

    With `own_images` the ranges are those of a search on the user's own images.
    """
    file = _file_of(method, own)
    dimensions = file.own_images_space if own_images else file.space
    ranges = {name: each for name, each in dimensions.items() if isinstance(each, Range)}
    return {name: each for name, each in ranges.items() if values.get(name) and values[name] not in each}


def for_own_images(method: str, own: Path | None = None) -> dict[str, tuple[Dimension, Dimension]]:
    """Return the usual and the replacing dimension of each hyperparameter that the method's file has for own images."""
    file = _file_of(method, own)
    return {name: (file.space[name], each) for name, each in file.own_images.items() if name in file.space}


def load_space(
    method: str,
    benchmark: str,
    *,
    own: Path | None = None,
    file: Path | None = None,
    overrides: Mapping[str, Scalar] | None = None,
    known: Collection[str] | None = None,
    benchmarks: Collection[str] | None = None,
    named: Callable[[str], str] = str,
    suited: Mapping[str, Scalar] | None = None,
) -> ResolvedSpace:
    """Return the search space of a method on a benchmark.

    Args:
        method: Name of the method.
        benchmark: Name of the benchmark.
        own: The file of a method that is not ours; it may be missing.
        file: The user's own file (`--space`); its entries replace those of the method's file, key by key.
        overrides: Values fixed by the user (`--set`).
        known: The method's hyperparameters; None for the names in its own file.
        benchmarks: Benchmarks that a file may name, beside the paper's and `benchmark`; None allows any.
        named: Returns the name that `benchmark` would have for a name in `file` with a colon, such as `folder:PATH`; it
            refuses another name with an `InputError`.
        suited: For the user's own images, the values that suit them better than those that the method's file fixes;
            the ranges of `own_images` then count. None for other benchmarks.

    Raises:
        InputError: If there is no file for the method, or a file or a fixed value is wrong.
    """
    usual, source = _file_of(method, own), f"{method}.yaml" if own is None else str(own)
    names = tuple(known or dict.fromkeys(name for _, name in usual.places()))
    _require_known(source, usual, names, None)
    files = [usual if suited is None else usual.for_own_images(benchmark, suited)]
    if file is not None:
        source = str(file)
        theirs = _renamed(source, read_space_file(file), named)
        files.append(theirs if suited is None else theirs.for_own_images(benchmark, {}))
        allowed = None if benchmarks is None else (*dict.fromkeys([*paper_benchmarks(), *benchmarks, benchmark]),)
        _require_known(source, files[-1], names, allowed)
        _require_numbers(usual, files[-1].fixed_values(benchmark), f"{source}: fixed: ")
    fixed = overrides or {}
    for name, value in fixed.items():
        if name not in names:
            raise InputError(f"--set {name}={value}: unknown hyperparameter {name!r}; {choices(name, names)}")
    _require_numbers(usual, fixed, "--set ")
    space = resolve(files, method, benchmark, fixed, source)
    if file is not None:
        _require_searched(source, files[-1], space, fixed)
    return space


def _renamed(source: str, file: SpaceFile, named: Callable[[str], str]) -> SpaceFile:
    """Return a file in which benchmarks have the names of `load_space`'s `named`."""
    sections: dict[str, dict[str, Point]] = {}
    for section in _BY_BENCHMARK:
        points = sections[section] = {}
        for name, point in getattr(file, section).items():
            try:
                new = named(name) if ":" in name else name
            except InputError as error:
                raise InputError(f"{source}: {section}: {error}") from error
            if new in points:
                raise InputError(f"{source}: {section}: benchmark {new!r} is there twice")
            points[new] = point
    return file.model_copy(update=sections)


def _require_searched(source: str, file: SpaceFile, space: ResolvedSpace, overrides: Collection[str]) -> None:
    """Refuse a start value of what is not searched, unless the file itself or `--set` fixes it."""
    fixed = {*overrides, *file.fixed_values(space.benchmark), *file.paper.get(space.benchmark, {})}
    for benchmark in (DEFAULT, space.benchmark):
        for name in file.start.get(benchmark, {}):
            if name not in space.space and name not in fixed:
                advice = "take it out, or give it a range in `space`, or its value in `fixed`"
                raise InputError(f"{source}: start.{benchmark}: {name!r} is not searched; {advice}")


def _require_known(source: str, file: SpaceFile, names: Collection[str], benchmarks: Collection[str] | None) -> None:
    for where, name in file.places():
        if name not in names:
            raise InputError(f"{source}: {where}: unknown hyperparameter {name!r}; {choices(name, names)}")
    if benchmarks is None:
        return
    for section in _BY_BENCHMARK:
        allowed = (*benchmarks, *(() if section == "paper" else (DEFAULT,)))
        for name in getattr(file, section):
            if name not in allowed and ":" not in name:  # `_renamed` has checked those with a colon
                raise InputError(f"{source}: {section}: unknown benchmark {name!r}; {choices(name, allowed)}")


def _require_numbers(usual: SpaceFile, values: Mapping[str, Scalar], where: str) -> None:
    """Refuse values that are not numbers where the method's file has a range; the method checks their size."""
    for name, value in values.items():
        dimension = usual.space.get(name)
        if not isinstance(dimension, Range):
            continue
        whole = "whole " if dimension.integer else ""
        number = is_number(value) and abs(value) <= sys.float_info.max  # false for NaN, too
        if not number or (dimension.integer and not float(value).is_integer()):
            given = shown(value) if is_number(value) else value
            raise InputError(f"{where}{name}={given}: must be a {whole}number, such as {dimension.grid[0]:g}")


def read_space_file(path: Path) -> SpaceFile:
    """Return the checked content of a search-space file; what cannot be read or is wrong is an InputError."""
    try:
        return read_model(path, SpaceFile.model_validate, _explain)
    except FileNotFoundError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except TextFileError as error:
        raise InputError(f"{path}: {error}") from error


def _explain(error: ValidationError) -> str:
    """Return the first faults of a file in one line, and a whole entry if one lacks a key."""
    if is_no_mapping(error):
        return f"must be a mapping with the keys {', '.join(SpaceFile.model_fields)}"
    faults = error.errors()
    said = [_explained(fault) for fault in faults[:_MOST_FAULTS]]
    if any(fault["type"] == "missing" for fault in faults):
        said.append(f"a whole entry is like {_ENTRY}")
    return "; ".join(said)


def _explained(fault: ErrorDetails) -> str:
    path = [one_line(part) for part in fault["loc"] if part not in _KINDS]
    key = ".".join(path)
    if fault["type"] == "missing":
        return f"{key} is missing"
    if fault["type"] == "extra_forbidden":
        kind = next((_KINDS[part] for part in fault["loc"] if part in _KINDS), SpaceFile)
        return f"{key}: unknown key; {choices(path[-1], kind.model_fields)}"
    return f"{key}: {fault_words(fault)}"
