"""What a state holds: named tensors, which may be large, and plain values."""

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
        tensors: They may change with every task, and are written with every checkpoint. As they were read they may be
            mapped from a file that is about to be removed: whoever keeps one makes a copy.
        constant: What is under a name never changes once it is there, so that it is written only once in a trial: a
            finished expert, its Gaussians. A name may go, but nothing else may ever take it.
        values: Lists rather than tuples, and text for keys, as JSON has them.
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    constant: Mapping[str, Tensor] = field(default_factory=dict)
    values: Mapping[str, JSON] = field(default_factory=dict)

    def within(self, room: str) -> State:
        """Return the same with `room/` before every name, so that states of several owners can be joined."""
        return State(_within(room, self.tensors), _within(room, self.constant), _within(room, self.values))

    def part(self, room: str) -> State:
        """Return what `within(room)` has put there, under its own names."""
        return State(_part(room, self.tensors), _part(room, self.constant), _part(room, self.values))

    def __or__(self, other: State) -> State:
        """Join two states, whose names must differ."""
        return State(
            {**self.tensors, **other.tensors}, {**self.constant, **other.constant}, {**self.values, **other.values}
        )


def _within(room: str, named: Mapping[str, _T]) -> dict[str, _T]:
    return {f"{room}/{name}": value for name, value in named.items()}


def _part(room: str, named: Mapping[str, _T]) -> dict[str, _T]:
    start = f"{room}/"
    return {name.removeprefix(start): value for name, value in named.items() if name.startswith(start)}
