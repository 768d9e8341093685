"""The file of a campaign: the cells of its table, with the options of their searches and final runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model

from checked_input.schema import Strict, is_no_mapping, read_model
from checked_input.text_files import TextFileError, one_line, shown
from search_spaces import Scalar
from search_spaces.values import ScalarField
from tausearch.api import SearchRequest, TrainRequest
from tausearch.studies import BestFile
from tausearch.tracking import Callback
from trainables.data import reference
from trainables.data.reference import OPTIONS
from trainables.errors import InputError
from trainables.user_code import file_name

Options = Mapping[str, Any]
_OF_THE_CELL = {"benchmark", "method", "best", "name", "resume_if_exists", "with_bounds"}
# Options that `search` lists and that decide what is measured, not how a search proceeds.
_OF_THE_PROTOCOL = {*OPTIONS, "backbone", "backbone_weights", "initial_head", "precision", "seed"}
_OF_THE_COMMAND = {"address", "data_root", "progress_to", "storage", "time_budget", "tracking_uri"} | {
    "callbacks",
    "tracking",
}


@dataclass(frozen=True)
class Cell:
    """One (benchmark, method) of a campaign.

    Attributes:
        search: Fields of the search's request; None if the cell is trained at the start of the space instead.
        train: Fields of the final run's request.
        protocol: Fields of the search's request that hold without a search, too: options of benchmark and backbone.
    """

    benchmark: str
    method: str
    search: Options | None = field(default_factory=dict)
    train: Options = field(default_factory=dict)
    protocol: Options = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The title of the cell: `digits/ita-lora`."""
        return f"{reference(self.benchmark).slug}/{file_name(self.method)}"


@dataclass(frozen=True)
class CampaignFile:
    """The content of a campaign's file: its name, and its cells benchmark after benchmark."""

    name: str
    cells: tuple[Cell, ...]


class _Exception(Strict):
    """Options that differ in one cell, one row or one column of the table."""

    benchmark: str | None = None
    method: str | None = None
    search: dict[str, Any] | None = None
    train: dict[str, Any] = {}


class _File(Strict):
    campaign: str
    benchmarks: list[str] = Field(min_length=1)
    methods: list[str] = Field(min_length=1)
    search: dict[str, Any] | None = {}
    train: dict[str, Any] = {}
    cells: list[_Exception] = []


def read_campaign(path: str | Path) -> CampaignFile:
    """Return the cells of a campaign's file with their exceptions. `plans` checks whether they can run.

    Raises:
        InputError: If it cannot be read, or an entry is wrong, with the file, the entry and the allowed values.
    """
    try:
        return _campaign(read_model(Path(path), _File.model_validate, partial(_explain, _File, "")))
    except FileNotFoundError as error:
        raise InputError(f"campaign file {path}: cannot be read ({error.strerror})") from error
    except (TextFileError, InputError) as error:
        raise InputError(f"campaign file {path}: {error}") from error


def _campaign(file: _File) -> CampaignFile:
    for key, names in (("benchmarks", file.benchmarks), ("methods", file.methods)):
        if twice := [name for name in names if names.count(name) > 1]:
            raise InputError(f"{key}: {twice[0]!r} is there twice")
    benchmarks = [_reference(f"benchmarks[{n}]", name) for n, name in enumerate(file.benchmarks)]
    search = None if file.search is None else _options("search", SearchRequest, file.search)
    usual = Cell("", "", _of_search(search), _options("train", TrainRequest, file.train), _of_protocol(search))
    exceptions = [_exception(f"cells[{number}]", each) for number, each in enumerate(file.cells)]
    rows = {each.benchmark: _row(usual, each.benchmark, exceptions) for each in exceptions if each.benchmark}
    cells: dict[tuple[str, str], Cell] = {}

    def cell(benchmark: str, method: str) -> Cell:
        return replace(rows.get(benchmark, usual), benchmark=benchmark, method=method)

    for benchmark, method in product(benchmarks, file.methods):
        cells[benchmark, method] = cell(benchmark, method)
    for each in exceptions:
        columns = file.methods if each.method is None else [each.method]
        for place in product([each.benchmark] if each.benchmark else benchmarks, columns):  # it can be a new one
            cells[place] = _changed(cells.get(place) or cell(*place), each)
    order = list(dict.fromkeys(benchmark for benchmark, _ in cells))
    return CampaignFile(file.campaign, tuple(sorted(cells.values(), key=lambda cell: order.index(cell.benchmark))))


def _exception(where: str, each: _Exception) -> _Exception:
    """Check an exception, and return it with its options as fields of requests."""
    if each.benchmark is None and each.method is None:
        raise InputError(f"{where}: names neither a benchmark nor a method")
    checked: dict[str, Any] = {"train": _options(f"{where}.train", TrainRequest, each.train)}
    if each.benchmark is not None:
        checked["benchmark"] = _reference(f"{where}.benchmark", each.benchmark)
    if each.search is not None:
        checked["search"] = _options(f"{where}.search", SearchRequest, each.search)
    return each.model_copy(update=checked)  # `search` counts as set only if the file has it


def _row(usual: Cell, benchmark: str, exceptions: Sequence[_Exception]) -> Cell:
    """Return a cell with a row's options of the benchmark: they hold for methods that other exceptions add, too."""
    own = [each.search for each in exceptions if each.benchmark == benchmark and each.method is None]
    return replace(usual, protocol={**usual.protocol, **{k: v for each in own for k, v in _of_protocol(each).items()}})


def _changed(cell: Cell, each: _Exception) -> Cell:
    search, own = cell.search, _of_search(each.search)
    if "search" in each.model_fields_set and own is None:
        search = None
    elif own or each.search == {}:  # options of the benchmark alone start no search
        search = _over(search or {}, own or {})
    return replace(
        cell,
        search=search,
        train=_over(cell.train, each.train),
        protocol={**cell.protocol, **_of_protocol(each.search)},
    )


def _of_protocol(search: Options | None) -> Options:
    return {name: value for name, value in (search or {}).items() if name in _OF_THE_PROTOCOL}


def _of_search(search: Options | None) -> Options | None:
    return None if search is None else {k: value for k, value in search.items() if k not in _OF_THE_PROTOCOL}


def _over(usual: Options, own: Options) -> Options:
    """Return options with replacements; the values under `set` are replaced one by one."""
    both = {**usual, **own}
    values = {**(usual.get("set") or {}), **(own.get("set") or {})}
    return {**both, "set": values} if values else both


def _reference(where: str, text: str) -> str:
    try:
        return str(reference(text))
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _options(where: str, request: Callable[..., object], given: Mapping[str, Any]) -> Options:
    """Check options, which have their names of the command line, and return them as fields of a request."""
    underscored = {str(name).replace("-", "_"): value for name, value in given.items()}
    for name in underscored.keys() & _OF_THE_COMMAND:
        raise InputError(f"{where}.{name}: is given on the command line of `campaign run`, for all cells")
    model = _model_of(request)
    try:
        return dict(model.model_validate(underscored).model_dump(exclude_unset=True))
    except ValidationError as error:
        raise InputError(_explain(model, f"{where}.", error)) from error


@cache
def _model_of(request: Callable[..., object]) -> type[BaseModel]:
    """Return the model of a request's options without those that the cell or the command line sets."""
    hints = get_type_hints(request, localns={"Scalar": Scalar, "BestFile": BestFile, "Callback": Callback})
    kept = {name: kind for name, kind in hints.items() if name not in _OF_THE_CELL | _OF_THE_COMMAND | {"_"}}
    kept["set"] = Mapping[str, ScalarField] | None
    # "auto" is refused: it needs a pilot before the search, which campaigns do not run.
    kept["gpus_per_trial"] = Annotated[float, BeforeValidator(_share)]
    fields: dict[str, Any] = {name: (kind, None) for name, kind in kept.items()}
    return create_model("Options", __config__=ConfigDict(extra="forbid", strict=True, frozen=True), **fields)


def _share(value: object) -> object:
    """Return the number of a fraction such as 1/3, which YAML reads as text."""
    try:
        return float(Fraction(value)) if isinstance(value, str) else value
    except (ValueError, ZeroDivisionError):
        return value


def _explain(model: type[BaseModel], where: str, error: ValidationError) -> str:
    first = error.errors()[0]
    if is_no_mapping(error):
        return f"it must be a mapping with the keys {', '.join(model.model_fields)}"
    path = [one_line(part) for part in first["loc"] if not str(part).startswith(("function", "Sequence", "Mapping"))]
    key = where + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in path).removeprefix(".")
    if first["type"] == "missing":
        return f"{key} is missing"
    if first["type"] == "extra_forbidden":
        inside = _Exception if path[0] == "cells" else model
        return f"{key}: there is no such key; allowed: {', '.join(inside.model_fields)}"
    return f"{key}: {first['msg'].lower()}, got {shown(first['input'])}"
