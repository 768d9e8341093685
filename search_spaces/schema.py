"""The schema of a search-space file, and the space that one benchmark gets from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from search_spaces.values import Scalar, ScalarField, SpaceError

__all__ = ["Choices", "Dimension", "Range", "ResolvedSpace", "Scalar", "SpaceError", "SpaceFile"]

DEFAULT = "default"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Range(_Strict):
    """A number from `low` to `high`, both included; on a logarithmic scale if `log`.

    `grid` holds the values that a grid search tries.
    """

    low: float
    high: float
    log: bool = False
    integer: bool = False
    grid: tuple[float, ...]

    @model_validator(mode="after")
    def _consistent(self) -> Range:
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got low={self.low:g} and high={self.high:g}")
        if self.log and self.low <= 0:
            raise ValueError(f"low must be above 0 on a log scale, got {self.low:g}")
        if not self.grid:
            raise ValueError("grid must hold at least one value")
        for value in self.grid:
            if value not in self:
                raise ValueError(f"grid values must lie between {self.low:g} and {self.high:g}, got {value:g}")
        return self

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.low <= value <= self.high and (not self.integer or float(value).is_integer())

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        return f"a {'whole ' if self.integer else ''}number from {self.low:g} to {self.high:g}"


class Choices(_Strict):
    """One of several values without order; a grid search tries all of them."""

    choices: tuple[ScalarField, ...]

    @property
    def grid(self) -> tuple[Scalar, ...]:
        """The values that a grid search tries."""
        return self.choices

    def __contains__(self, value: object) -> bool:
        return value in self.choices

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        return f"one of {', '.join(map(str, self.choices))}"


Dimension = Range | Choices
Point = dict[str, ScalarField]


class SpaceFile(_Strict):
    """A search-space file.

    Attributes:
        space: Hyperparameter to what may be tried.
        paper: Benchmark to the paper's chosen values; tried first there.
        start: Benchmark (or `default`) to a point of our own, tried first where the paper has none.
        fixed: Benchmark (or `default`) to values that are not searched.
    """

    space: dict[str, Dimension] = {}
    paper: dict[str, Point] = {}
    start: dict[str, Point] = {}
    fixed: dict[str, Point] = {}

    def overlaid(self, other: SpaceFile) -> SpaceFile:
        """Return this file with another's entries over its own, key by key."""

        def merge(mine: Mapping[str, Point], theirs: Mapping[str, Point]) -> dict[str, Point]:
            return {name: {**mine.get(name, {}), **theirs.get(name, {})} for name in (*mine, *theirs)}

        return SpaceFile(
            space={**self.space, **other.space},
            paper=merge(self.paper, other.paper),
            start=merge(self.start, other.start),
            fixed=merge(self.fixed, other.fixed),
        )


@dataclass(frozen=True)
class ResolvedSpace:
    """Exactly what a search of one method on one benchmark uses.

    Attributes:
        method: Name.
        benchmark: Name.
        space: What is searched.
        start: The point that is tried first: a value for every searched hyperparameter.
        paper: The paper's chosen values for this benchmark; empty if it has none.
        fixed: Values that are not searched.
    """

    method: str
    benchmark: str
    space: dict[str, Dimension]
    start: dict[str, Scalar]
    paper: dict[str, Scalar]
    fixed: dict[str, Scalar]

    def grid_size(self) -> int:
        """Return the number of points of the full grid."""
        size = 1
        for dimension in self.space.values():
            size *= len(dimension.grid)
        return size

    def as_dict(self) -> dict[str, Any]:
        """Return the plain form that `tausearch spaces --json` prints."""
        return {
            "method": self.method,
            "benchmark": self.benchmark,
            "space": {name: dimension.model_dump(mode="json") for name, dimension in self.space.items()},
            "start": dict(self.start),
            "paper": dict(self.paper),
            "fixed": dict(self.fixed),
        }


def resolve(file: SpaceFile, method: str, benchmark: str, overrides: Mapping[str, Scalar], source: str) -> ResolvedSpace:
    """Work out the space for one benchmark.

    Args:
        file: The merged file.
        method: Name.
        benchmark: Name.
        overrides: Values fixed by the user (`--set`); they leave the search.
        source: What to call the file in an error.

    Raises:
        SpaceError: If nothing is left to search, or a starting value is missing or out of range.
    """
    paper = file.paper.get(benchmark, {})
    # The paper's values of what is not searched (epochs of probing, say) belong to its protocol for the benchmark.
    fixed = {**file.fixed.get(DEFAULT, {}), **{k: v for k, v in paper.items() if k not in file.space}}
    fixed |= {**file.fixed.get(benchmark, {}), **overrides}
    space = {name: dimension for name, dimension in file.space.items() if name not in fixed}
    points = {**file.start.get(DEFAULT, {}), **file.start.get(benchmark, {}), **paper}
    start = {}
    for name, dimension in space.items():
        if name not in points:
            raise SpaceError(f"{source}: start.{benchmark} or start.default must give {name!r} ({dimension.allowed})")
        if points[name] not in dimension:
            raise SpaceError(f"{source}: start value of {name!r} must be {dimension.allowed}, got {points[name]!r}")
        start[name] = points[name]
    return ResolvedSpace(method, benchmark, space, start, dict(paper), fixed)
