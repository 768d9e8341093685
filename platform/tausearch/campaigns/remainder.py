"""What is left of a campaign's file without its wrong entries, so that its cells are checked together with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from pydantic import ValidationError

from checked_input.names import near
from tausearch.campaigns.schema import FileContent, SearchOptions, entry_of

# What cannot be judged without an option: options that go with it.
_GO_WITH: Mapping[str, Sequence[str]] = {
    "algorithm": ("sampler_options", "trials", "scheduler"),
    "objective": ("prefer",),
    "reevaluate": ("reevaluate_runs",),
    "scheduler": ("pruner_options",),
    "trials": ("reevaluate", "reevaluate_runs"),
}


def remainder(plain: object, needed: frozenset[str]) -> FileContent | None:
    """Return the content of a file without its wrong entries and the options that go with them.

    An option of an unknown name is taken for the one that was meant.

    `needed` are options of a search without which no cell can be judged.

    Returns:
        The content; None if too little is left, or an option is wrong that is needed.
    """
    left = deepcopy(plain)
    while isinstance(left, Mapping):
        try:
            return FileContent.model_validate(left)
        except ValidationError as error:
            places = [_removable(entry_of(each["loc"])) for each in error.errors()]
        of_search = [place for place in places if "train" not in place]
        if any(place[-1:] == ("search",) or _meant(place) in needed for place in of_search):
            return None
        # From the back, so that the numbers of entries of a list stay right.
        found = sorted(set(places), key=_in_order, reverse=True)
        gone = {(*place[:-1], each) for place in found for each in _GO_WITH.get(_meant(place) or "", ())}
        if not all([_removed(left, place) or place in gone for place in found]):
            return None
    return None


def _in_order(place: Sequence[Any]) -> list[tuple[bool, Any]]:
    """Return a key that sorts the numbers of entries as numbers."""
    return [(isinstance(part, int), part) for part in place]


def _removable(place: Sequence[Any]) -> tuple[Any, ...]:
    """Return the place of what is taken out for a fault: a whole cell whose benchmark, method or key is wrong."""
    of_options = any(part in ("search", "train") for part in place)
    return tuple(place[:2]) if place[:1] == ("cells",) and not of_options else tuple(place)


def _meant(place: Sequence[Any]) -> str | None:
    """Return the option of a search that the last part of a place names, or is most like."""
    found = near(str(place[-1]), SearchOptions.model_fields) if place else []  # a name is most like itself
    return found[0] if found else None


def _removed(content: Any, place: Sequence[Any]) -> bool:
    """Take an entry out of a file's content, with the options that go with it; returns whether it was there."""
    *parents, last = place or [None]
    for part in parents:
        content = content[_key(content, part)]
    if isinstance(content, list):
        if isinstance(last, int) and last < len(content):
            content.pop(last)
            return True
        return False
    for each in _GO_WITH.get(_meant(place) or "", ()):
        content.pop(_key(content, each), None)
    return content.pop(_key(content, last), place) is not place


def _key(content: Any, name: Any) -> Any:
    """Return the key of a mapping as its file writes it: with dashes or underscores."""
    if not isinstance(content, Mapping):
        return name
    return next((key for key in content if str(key).replace("-", "_") == name), name)
