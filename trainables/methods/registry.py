"""How a method is found by its name: one of ours, `MODULE:NAME`, or one that an installed package brings."""

from __future__ import annotations

from trainables.errors import InputError
from trainables.methods.declared import entry_of
from trainables.methods.entry import METHODS, MethodEntry
from trainables.user_code import find


def get_method(name: str) -> MethodEntry:
    """Return the entry of a method; an unknown name, and code that is wrong or not allowed, are an InputError."""
    found = find("method", name, METHODS, type)
    return found if isinstance(found, MethodEntry) else entry_of(name, found)


def known_method(name: str) -> MethodEntry | None:
    """Return the entry of a method that a file names; None if it is not here, or is code that may not run."""
    try:
        return get_method(name)
    except InputError:
        return None
