"""The file of a campaign: the cells of its table, with the options of their searches and final runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from checked_input.fields import MAY_BE_CODE
from checked_input.schema import read_model
from checked_input.text_files import TextFileError
from tausearch.campaigns.remainder import remainder
from tausearch.campaigns.schema import CellOverride, FileContent, content_of
from trainables.data import reference
from trainables.data.reference import OPTIONS
from trainables.errors import InputError
from trainables.user_code import file_name

Options = Mapping[str, Any]
# Options that `search` lists and that decide what is measured, not how a search proceeds.
_OF_THE_PROTOCOL = {*OPTIONS, "backbone", "backbone_weights", "initial_head", "precision", "seed"}


@dataclass(frozen=True)
class CellConfig:
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

    @property
    def user_code_names(self) -> tuple[str, ...]:
        """The names in it that may be those of the user's code."""
        given = (self.protocol, self.search or {}, self.train)
        named = [each.get(name) for each in given for name in MAY_BE_CODE]
        values = [value for each in given for value in (each.get("set") or {}).values()]
        return (self.benchmark, self.method, *(name for name in (*named, *values) if isinstance(name, str)))


@dataclass(frozen=True)
class CampaignFile:
    """The content of a campaign's file: its name, and its cells benchmark after benchmark."""

    name: str
    cells: tuple[CellConfig, ...]


def read_campaign(path: str | Path) -> CampaignFile:
    """Return the cells of a campaign's file with their exceptions. `plans` checks whether they can run.

    Raises:
        InputError: If it cannot be read; or with a line for each wrong entry, its place and the allowed values.
    """
    try:
        return _named_apart(_campaign(read_model(Path(path), content_of)))
    except FileNotFoundError as error:
        raise InputError(f"campaign file {path}: cannot be read ({error.strerror})") from error
    except (TextFileError, InputError) as error:
        raise InputError(*(f"campaign file {path}: {fault}" for fault in error.args)) from error


def read_remainder(path: str | Path) -> CampaignFile | None:
    """Return the cells of a wrong file without its wrong entries; None if too little is left."""
    try:
        content = read_model(Path(path), partial(remainder, needed=frozenset(_OF_THE_PROTOCOL)))
    except (FileNotFoundError, TextFileError):
        return None
    return None if content is None else _campaign(content)


def _named_apart(file: CampaignFile) -> CampaignFile:
    """Refuse cells that would share runs or a picture: the names of these have the last part of a path alone."""
    cells: dict[str, CellConfig] = {}
    rows: dict[str, CellConfig] = {}
    faults = []
    for cell in file.cells:
        run, slug = f"{file.name}-{cell.title.replace('/', '-')}", reference(cell.benchmark).slug
        other, row = cells.setdefault(run, cell), rows.setdefault(slug, cell)
        if other is not cell:
            faults.append(_alike(other, cell, cell.title if cell.title == other.title else run))
        elif row.benchmark != cell.benchmark:
            faults.append(_alike(row, cell, slug))
    if faults:
        raise InputError(*faults)
    return file


def _alike(cell: CellConfig, other: CellConfig, name: str) -> str:
    both = [f"{each.method} on {each.benchmark}" for each in (cell, other)]
    advice = "give one another name, as by a link to its folder" if reference(cell.benchmark).path else "leave out one"
    return f"{' and '.join(both)}: both would be {name}; {advice}"


def _campaign(file: FileContent) -> CampaignFile:
    search = None if file.search is None else file.search.given
    usual = CellConfig("", "", _of_search(search), file.train.given, _of_protocol(search))
    of_row = {each.benchmark: _row(usual, each.benchmark, file.cells) for each in file.cells if each.benchmark}
    cells: dict[tuple[str, str], CellConfig] = {}

    def cell(benchmark: str, method: str) -> CellConfig:
        return replace(of_row.get(benchmark, usual), benchmark=benchmark, method=method)

    for benchmark, method in product(file.benchmarks, file.methods):
        cells[benchmark, method] = cell(benchmark, method)
    named = [(each.benchmark, name) for each in file.cells if each.benchmark for name in _columns(file, each)]
    for each in file.cells:
        added = [benchmark for benchmark, method in named if method == each.method]
        benchmarks = [each.benchmark] if each.benchmark else dict.fromkeys([*file.benchmarks, *added])
        for place in product(benchmarks, _columns(file, each)):  # it can be a new one
            cells[place] = _changed(cells.get(place) or cell(*place), each)
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    order = sorted(cells.values(), key=lambda cell: (rows.index(cell.benchmark), columns.index(cell.method)))
    return CampaignFile(file.campaign, tuple(order))


def _columns(file: FileContent, each: CellOverride) -> Sequence[str]:
    return file.methods if each.method is None else [each.method]


def _row(usual: CellConfig, benchmark: str, overrides: Sequence[CellOverride]) -> CellConfig:
    """Return a cell with a row's options of the benchmark: they hold for methods that other exceptions add, too."""
    own = [_search_options(each) for each in overrides if each.benchmark == benchmark and each.method is None]
    return replace(usual, protocol={**usual.protocol, **{k: v for each in own for k, v in _of_protocol(each).items()}})


def _changed(cell: CellConfig, each: CellOverride) -> CellConfig:
    given = _search_options(each)
    search, own = cell.search, _of_search(given)
    if "search" in each.model_fields_set and own is None:
        search = None
    elif own or given == {}:  # options of the benchmark alone start no search
        search = _merge_options(search or {}, own or {})
    return replace(
        cell,
        search=search,
        train=_merge_options(cell.train, each.train.given),
        protocol={**cell.protocol, **_of_protocol(given)},
    )


def _search_options(each: CellOverride) -> Options | None:
    return None if each.search is None else each.search.given


def _of_protocol(search: Options | None) -> Options:
    return {name: value for name, value in (search or {}).items() if name in _OF_THE_PROTOCOL}


def _of_search(search: Options | None) -> Options | None:
    return None if search is None else {k: value for k, value in search.items() if k not in _OF_THE_PROTOCOL}


def _merge_options(usual: Options, own: Options) -> Options:
    """Return options with replacements; the values under `set` are replaced one by one, and `set: null` has none."""
    both = {**usual, **own}
    if "set" in own and own["set"] is None:
        return both
    values = {**(usual.get("set") or {}), **(own.get("set") or {})}
    return {**both, "set": values} if values else both
