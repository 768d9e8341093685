"""The schema of a campaign's file, and a line for everything that is wrong with its names and values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field as RequestField, fields
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
    model_validator,
)

from checked_input.names import choices
from checked_input.schema import Strict, is_no_mapping, words_of
from checked_input.text_files import one_line, shown
from search_spaces import Scalar
from search_spaces.values import ScalarField
from tausearch.api import DriveRequest, SearchRequest, TrainRequest, field_fault
from tausearch.cluster import ASKED_PRECISIONS
from tausearch.runs import checked_name
from tausearch.studies import BestFile, algorithm_named, one_of, pruner_class
from tausearch.tracking import Callback
from trainables.data import reference, split_references
from trainables.errors import InputError
from trainables.methods import METHODS, get_method
from trainables.user_code import is_code

_OF_SEVERAL = "across"  # goes with several benchmarks alone
_OF_THE_CELL = {"benchmark", "method", "best", "name", "resume_if_exists", "with_bounds", _OF_SEVERAL}
_ALONE = "a campaign searches each benchmark alone; together, they are searched with `search %s`"
_OF_THE_COMMAND = {each.name for each in fields(DriveRequest)} - {"max_concurrent_trials"}
_NAMES: Mapping[str, Callable[[str], object]] = {  # options whose value is one of some names
    "algorithm": algorithm_named,
    "scheduler": pruner_class,
    "precision": partial(one_of, "precision", allowed=ASKED_PRECISIONS),
}


class RequestOptions(BaseModel):
    """Options of `search` or `train`, under their names of the command line or of the request's fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _underscored(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        names = Counter(str(name).replace("-", "_") for name in given)
        if twice := [name for name, count in names.items() if count > 1]:
            raise InputError(*(f"{name} is there twice, with dashes and with underscores" for name in twice))
        return {str(name).replace("-", "_"): value for name, value in given.items()}

    @property
    def given(self) -> Mapping[str, Any]:
        """The options that the file has, as fields of the request."""
        return self.model_dump(exclude_unset=True)


def _options_of(request: type[SearchRequest] | type[TrainRequest]) -> Any:
    """Return the model of a request's options without those that the cell or the command line sets."""
    hints = get_type_hints(request, localns={"Scalar": Scalar, "BestFile": BestFile, "Callback": Callback})
    kept: dict[str, Any] = {
        each.name: Annotated[hints[each.name], AfterValidator(partial(_checked, each))]
        for each in fields(request)
        if each.name not in _OF_THE_CELL | _OF_THE_COMMAND
    }
    kept["set"] = Mapping[str, ScalarField] | None
    kept["gpus_per_trial"] = Annotated[float, WrapValidator(_share), PlainSerializer(lambda value: value)]
    options: dict[str, Any] = {name: (kind, None) for name, kind in kept.items()}
    return create_model("Options", __base__=RequestOptions, **options)


def _checked(of: RequestField[Any], value: Any) -> Any:
    """Return the value of an option if it can be right by itself; code is looked at where its cells are planned."""
    if fault := field_fault(of, value):
        raise InputError(fault)
    if of.name in _NAMES and not is_code(value):
        _NAMES[of.name](value)
    return value


def _share(value: object, number: ValidatorFunctionWrapHandler) -> object:
    """Return "auto", or a number; YAML reads a fraction such as 1/3 as text."""
    if value == "auto":
        return value
    with suppress(ValueError, ZeroDivisionError):
        value = float(Fraction(value)) if isinstance(value, str) else value
    return number(value)


def _known_method(name: str) -> str:
    """Return the name of a method; code is looked at where its cells are planned."""
    if name not in METHODS and not is_code(name):
        get_method(name)
    return name


def _known_benchmark(text: str) -> str:
    """Return the name of one benchmark."""
    several = split_references(text)
    if len(several) > 1:
        raise InputError(f"{text!r}: {_ALONE % f'{text} METHOD'}; a list has brackets: [{', '.join(several)}]")
    return str(reference(text))


if TYPE_CHECKING:  # models made from the fields of requests are no types to a checker
    SearchOptions = RequestOptions
    TrainOptions = RequestOptions
else:
    SearchOptions, TrainOptions = _options_of(SearchRequest), _options_of(TrainRequest)
BenchmarkName = Annotated[str, AfterValidator(_known_benchmark)]
MethodName = Annotated[str, AfterValidator(_known_method)]


class CellOverride(Strict):
    """Options that differ in one cell, one row or one column of the table."""

    benchmark: BenchmarkName | None = None
    method: MethodName | None = None
    search: SearchOptions | None = None
    train: TrainOptions = TrainOptions()

    @model_validator(mode="after")
    def _names_something(self) -> CellOverride:
        if self.benchmark is None and self.method is None:
            raise InputError("names neither a benchmark nor a method")
        return self


class FileContent(Strict):
    """The content of a campaign's file."""

    campaign: Annotated[str, AfterValidator(checked_name)]
    benchmarks: list[BenchmarkName] = Field(min_length=1)
    methods: list[MethodName] = Field(min_length=1)
    search: SearchOptions | None = SearchOptions()
    train: TrainOptions = TrainOptions()
    cells: list[CellOverride] = []


def content_of(plain: object) -> FileContent:
    """Return the checked content of a file.

    Raises:
        InputError: With a line for each name or value that is wrong, each with its place and what is allowed.
    """
    try:
        content = FileContent.model_validate(plain)
    except ValidationError as error:
        raise InputError(*_faults(error), *_twice(plain)) from error
    if twice := list(_twice(plain)):
        raise InputError(*twice)
    return content


def _twice(plain: object) -> Iterator[str]:
    """Yield a line for each benchmark and method that the lists name more than once."""
    for key in ("benchmarks", "methods"):
        names = plain.get(key) if isinstance(plain, Mapping) else None
        texts = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        yield from (f"{key}: {name!r} is there twice" for name in dict.fromkeys(texts) if texts.count(name) > 1)


def _faults(error: ValidationError) -> list[str]:
    """Return the lines of an error, of an option that may have several types with the first one."""
    if is_no_mapping(error):
        return [f"it must be a mapping with the keys {', '.join(FileContent.model_fields)}"]
    found: dict[tuple[object, ...], list[str]] = {}
    for each in error.errors():
        found.setdefault(entry_of(each["loc"]), list(_lines(each)))
    return [line for lines in found.values() for line in lines]


def entry_of(place: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return the place of the option or name that an error is in, without the types that it was tried as."""
    for number, part in enumerate(place):
        if part in ("search", "train"):
            return place[: number + (3 if "set" in place[number:] else 2)]
    return place


def _lines(fault: Any) -> Iterator[str]:
    """Yield the lines of one fault that pydantic has found."""
    place: tuple[int | str, ...] = fault["loc"]
    entry = entry_of(place)
    path = [one_line(part) for part in (*entry, *(part for part in place[len(entry) :] if isinstance(part, int)))]
    key = "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in path).removeprefix(".")
    kind = fault["type"]
    raised = fault.get("ctx", {}).get("error")
    if kind == "missing":
        yield f"{key} is missing"
    elif kind == "extra_forbidden" and path[-1] in _OF_THE_COMMAND and len(path) > 1:
        yield f"{key}: is given on the command line of `campaign run`, for all cells"
    elif kind == "extra_forbidden" and path[-1] == _OF_SEVERAL and len(path) > 1:
        yield f"{key}: {_ALONE % 'A,B METHOD --across ...'}"
    elif kind == "extra_forbidden":
        yield f"{key}: there is no such key; {choices(path[-1], _model_at(place[:-1]).model_fields)}"
    elif isinstance(raised, InputError):
        yield from (f"{key}: {line}" for line in raised.args)
    else:
        given = "null" if fault["input"] is None else shown(fault["input"])
        yield f"{key}: {words_of(fault)}, got {given}"


def _model_at(place: Sequence[int | str]) -> type[BaseModel]:
    """Return the model whose keys stand at a place of the file."""
    if not place:
        return FileContent
    models: Mapping[object, type[BaseModel]] = {"search": SearchOptions, "train": TrainOptions}
    return models.get(place[-1], CellOverride)
