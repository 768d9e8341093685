"""The contents of a state: named tensors, which may be large, and plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from torch import Tensor

JSON = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]
_T = TypeVar("_T")


@dataclass(frozen=True)
class State:
    """Named tensors and plain values. A name is a path whose parts are joined by `/`.

    Attributes:
        tensors: Tensors that may change with every task; every checkpoint has them. After reading they may be mapped
            from a file that is about to be removed, so copy a tensor to keep it.
        constant: Tensors that never change, such as a finished expert; a trial writes each of them once. A name may
            go, but no other tensor may take it later.
        values: Plain values as JSON has them: lists instead of tuples, text as keys.
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    constant: Mapping[str, Tensor] = field(default_factory=dict)
    values: Mapping[str, JSON] = field(default_factory=dict)

    def within(self, prefix: str) -> State:
        """Return the state with `prefix/` before every name, so that states of several owners can be joined."""
        return State(_within(prefix, self.tensors), _within(prefix, self.constant), _within(prefix, self.values))

    def part(self, prefix: str) -> State:
        """Return the entries below `prefix/`, without the prefix: the inverse of `within`."""
        return State(_part(prefix, self.tensors), _part(prefix, self.constant), _part(prefix, self.values))

    def __or__(self, other: State) -> State:
        """Join two states, whose names must differ."""
        return State(
            {**self.tensors, **other.tensors}, {**self.constant, **other.constant}, {**self.values, **other.values}
        )


def _within(prefix: str, named: Mapping[str, _T]) -> dict[str, _T]:
    return {f"{prefix}/{name}": value for name, value in named.items()}


def _part(prefix: str, named: Mapping[str, _T]) -> dict[str, _T]:
    start = f"{prefix}/"
    return {name.removeprefix(start): value for name, value in named.items() if name.startswith(start)}
