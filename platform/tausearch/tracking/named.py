"""Callbacks by name: a class in the user's module, or what an installed package brings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tausearch.tracking.events import Callback
from trainables.errors import InputError
from trainables.user_code import allow_typed, called, find, require_members

METHOD = "on_event"


def callbacks_of(given: Sequence[Callback | str]) -> list[Callback]:
    """Return callbacks, those that are named included; the names count as typed by the user.

    A name is `MODULE:NAME`, or that of an entry point in the group `tausearch.callbacks`. It stands for a class that
    is made without arguments, a function that returns a callback, or the callback itself.

    Raises:
        InputError: If a name stands for no callback, or an object is none.
    """
    return [_named(each) if isinstance(each, str) else _checked(f"callback {each!r}", each) for each in given]


def _named(name: str) -> Callback:
    allow_typed(name)
    what, found = f"callback {name!r}", find("callback", name, {}, object)
    if isinstance(found, type):
        require_members(what, found, Callback)
        return _checked(what, called(what, found))
    if not hasattr(found, METHOD) and callable(found):
        return _checked(what, called(what, found))
    return _checked(what, found)


def _checked(what: str, found: Any) -> Callback:
    if isinstance(found, type):
        raise InputError(f"{what}: is a class; give an object of it")
    if not callable(getattr(found, METHOD, None)):
        raise InputError(f"{what}: {type(found).__name__} lacks {METHOD}() of the protocol Callback")
    patience = getattr(found, "patience", 0.0)
    if isinstance(patience, bool) or not isinstance(patience, int | float) or not patience >= 0:
        raise InputError(f"{what}: patience must be a number of seconds, got {patience!r}")
    return found
