"""The schema of a search-space file, and the search space that it gives for one benchmark."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Discriminator, FiniteFloat, Tag, model_validator

from checked_input.errors import InputError
from checked_input.schema import Strict
from checked_input.text_files import shown
from search_spaces.values import Scalar, ScalarField, is_number

DEFAULT = "default"


class Range(Strict):
    """A number from `low` to `high`, both included, and the values of a grid search."""

    low: FiniteFloat
    high: FiniteFloat
    log: bool = False
    integer: bool = False
    grid: tuple[FiniteFloat, ...]

    @property
    def numbers(self) -> bool:
        """Whether every value is a number."""
        return True

    @model_validator(mode="after")
    def _consistent(self) -> Range:
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got low={self.low:g} and high={self.high:g}")
        if self.integer and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError(f"low and high must be whole numbers, got low={self.low:g} and high={self.high:g}")
        if self.log and self.low <= 0:
            raise ValueError(f"low must be above 0 on a log scale, got {self.low:g}")
        _require_different("grid", self.grid)
        for value in self.grid:
            if value not in self:
                raise ValueError(f"a grid value must be {self.allowed}, got {value:g}")
        return self

    def __contains__(self, value: object) -> bool:
        if not is_number(value):
            return False
        return self.low <= value <= self.high and (not self.integer or float(value).is_integer())

    def typed(self, value: Scalar) -> Scalar:
        """Return a value as the type of number that the search draws."""
        return int(value) if self.integer else float(value)

    def nearest(self, value: Scalar) -> Scalar:
        """Return the nearest value of the range to a number; other values are returned unchanged."""
        if not is_number(value):
            return value
        return min(max(round(value) if self.integer else value, self.low), self.high)

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        return f"a {'whole ' if self.integer else ''}number from {self.low:g} to {self.high:g}"


class Choices(Strict):
    """One of several values without order; a grid search tries all of them."""

    choices: tuple[ScalarField, ...]

    @model_validator(mode="after")
    def _consistent(self) -> Choices:
        _require_different("choices", self.choices)
        return self

    @property
    def numbers(self) -> bool:
        """Whether every value is a number; `True` is none."""
        return all(map(is_number, self.choices))

    def typed(self, value: Scalar) -> Scalar:
        """Return the value unchanged."""
        return value

    def nearest(self, value: Scalar) -> Scalar:
        """Return the nearest choice to a number if all are numbers; other values are returned unchanged."""
        if not (self.numbers and is_number(value)):
            return value
        far = {choice: abs(choice - value) for choice in self.choices if is_number(choice)}
        return min(far, key=far.__getitem__)

    @property
    def grid(self) -> tuple[Scalar, ...]:
        """The values of a grid search."""
        return self.choices

    def __contains__(self, value: object) -> bool:
        return value in self.choices

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        return f"one of {', '.join(map(str, self.choices))}"


def _require_different(what: str, values: Sequence[Scalar]) -> None:
    """Refuse none and duplicates; 1 and 1.0 are the same value, True and 1 are not."""
    if not values:
        raise ValueError(f"{what} must hold at least one value")
    kinds = [(isinstance(value, bool), value) for value in values]
    twice = next((value for n, (_, value) in enumerate(kinds) if kinds[n] in kinds[:n]), None)
    if twice is not None:
        raise ValueError(f"{what} must be different values, {shown(twice)} is there twice")


def _kind(value: object) -> str:
    """Return the intended kind of a dimension, so that error messages are about this kind alone."""
    has_choices = "choices" in value if isinstance(value, Mapping) else isinstance(value, Choices)
    return "choices" if has_choices else "range"


Dimension = Annotated[
    Annotated[Range, Tag("range")] | Annotated[Choices, Tag("choices")],
    Discriminator(_kind),
]
Point = dict[str, ScalarField]


class SpaceFile(Strict):
    """The content of a search-space file: dimensions by hyperparameter, and points by benchmark (or `default`)."""

    space: dict[str, Dimension] = {}
    paper: dict[str, Point] = {}  # the paper's values, which are tried first; never for `default`
    start: dict[str, Point] = {}  # our own points, tried first where the paper has none
    fixed: dict[str, Point] = {}  # values that are not searched
    own_images: dict[str, Dimension] = {}  # in place of those of `space` on the user's own images

    def first_values(self, benchmark: str) -> dict[str, Scalar]:
        """Return the first point to try on a benchmark: the paper's values, then our own."""
        own = {**self.start.get(DEFAULT, {}), **self.start.get(benchmark, {})}
        return {**own, **self.paper.get(benchmark, {})}

    def fixed_values(self, benchmark: str) -> dict[str, Scalar]:
        """Return the values that are not searched on a benchmark."""
        return {**self.fixed.get(DEFAULT, {}), **self.fixed.get(benchmark, {})}

    @property
    def own_images_space(self) -> dict[str, Dimension]:
        """The dimensions that are searched on the user's own images."""
        return {**self.space, **self.own_images}

    def for_own_images(self, benchmark: str, values: Mapping[str, Scalar]) -> SpaceFile:
        """Return the file with the dimensions of `own_images`, and values fixed on a benchmark unless the file does."""
        fixed = {**self.fixed, benchmark: {**values, **self.fixed.get(benchmark, {})}}
        return self.model_copy(update={"space": self.own_images_space, "fixed": fixed})

    def places(self) -> Iterator[tuple[str, str]]:
        """Yield section and name of each hyperparameter in the file: `("fixed.digits", "lr")`."""
        yield from (("space", name) for name in self.space)
        yield from (("own_images", name) for name in self.own_images)
        for section in ("paper", "start", "fixed"):
            for benchmark, point in getattr(self, section).items():
                yield from ((f"{section}.{benchmark}", name) for name in point)


@dataclass(frozen=True)
class ResolvedSpace:
    """The search space of one method on one benchmark."""

    method: str
    benchmark: str
    space: dict[str, Dimension]  # of every searched hyperparameter
    start: dict[str, Scalar]  # the point to try first: a value for every searched hyperparameter
    paper: dict[str, Scalar]  # the paper's values for this benchmark; empty if it has none
    fixed: dict[str, Scalar]  # the values of hyperparameters that are not searched

    def grid_size(self) -> int:
        """Return the number of points of the full grid."""
        return math.prod(len(dimension.grid) for dimension in self.space.values())

    def without(self, names: Collection[str]) -> ResolvedSpace:
        """Return the space in which some hyperparameters are not searched, but fixed at their start."""
        space = {name: dimension for name, dimension in self.space.items() if name not in names}
        start = {name: self.start[name] for name in space}
        fixed = {name: value for name, value in self.start.items() if name in names}
        return replace(self, space=space, start=start, fixed={**self.fixed, **fixed})

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `tausearch list spaces --format json` prints."""
        space = {name: dimension.model_dump(mode="json") for name, dimension in self.space.items()}
        return {**vars(self), "space": space}


def resolve(
    files: Sequence[SpaceFile], method: str, benchmark: str, overrides: Mapping[str, Scalar], source: str
) -> ResolvedSpace:
    """Return the checked search space of a method on one benchmark.

    The user's file, if there is one, replaces entries of the method's file, key by key. If it narrows a range without a
    start value, the start moves to the nearest allowed value. Overridden values (`--set`) are not searched.

    Raises:
        InputError: If a start value is missing or out of range; names the source of the files.
    """
    space: dict[str, Dimension] = {}
    first: dict[str, Scalar] = {}
    paper: dict[str, Scalar] = {}
    fixed: dict[str, Scalar] = {}
    for file in files:
        fixes, chosen = file.fixed_values(benchmark), file.paper.get(benchmark, {})
        space = {name: d for name, d in {**space, **file.space}.items() if name not in fixes}
        # The paper's values that are not searched, such as epochs of probing, are fixed unless the file fixes others.
        over_default = {**fixed, **file.fixed.get(DEFAULT, {}), **chosen, **file.fixed.get(benchmark, {})}
        fixed = {name: value for name, value in over_default.items() if name not in space}
        first |= {**fixes, **file.first_values(benchmark)}
        paper |= chosen
    space = {name: dimension for name, dimension in space.items() if name not in overrides}
    for name, dimension in space.items():
        if name not in first:
            raise InputError(f"{source}: start.{benchmark} or start.default must give {name!r} ({dimension.allowed})")
        if name not in files[-1].first_values(benchmark):
            # The user's file narrowed the space. A begun search has its start, so this stays the first choice.
            if isinstance(dimension, Range):
                first[name] = dimension.nearest(first[name])
            elif first[name] not in dimension:
                first[name] = dimension.choices[0]
        if first[name] not in dimension:
            raise InputError(f"{source}: start value of {name!r} must be {dimension.allowed}, got {first[name]!r}")
    start = {name: dimension.typed(first[name]) for name, dimension in space.items()}
    return ResolvedSpace(method, benchmark, space, start, paper, {**fixed, **overrides})
