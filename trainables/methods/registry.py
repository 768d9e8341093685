"""How a method is found by its name: one of ours, `MODULE:NAME`, or one that an installed package brings."""

from __future__ import annotations

from functools import cache

from trainables.errors import InputError
from trainables.methods.declared import entry_of
from trainables.methods.entry import METHODS, MethodEntry
from trainables.user_code import find


def register(entry: MethodEntry) -> None:
    """Add a method to the registry.

    Raises:
        ValueError: If a method of that name is registered already.
    """
    if entry.name in METHODS:
        raise ValueError(f"a method named {entry.name!r} is registered already")
    METHODS[entry.name] = entry


def get_method(name: str) -> MethodEntry:
    """Return the entry of a method.

    Raises:
        InputError: If there is no method of that name, it is code that is not allowed, or the code is wrong.
    """
    found = find("method", name, METHODS, type)
    return found if isinstance(found, MethodEntry) else _entry_of(name, found)


def known_method(name: str) -> MethodEntry | None:
    """Return the entry of a method that a file names; None if it is not here, or is code that may not run."""
    try:
        return get_method(name)
    except InputError:
        return None


@cache
def _entry_of(name: str, declared: type) -> MethodEntry:
    return entry_of(name, declared)
