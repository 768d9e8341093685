"""What an error says of a name that is not among those that are allowed; and counts with their nouns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

from checked_input.errors import InputError

_MOST = 3
_MANY = 8  # names, behind which nobody would look for a suggestion
_ALIKE = 0.62  # of difflib's 0 to 1; its own 0.6 takes "train" for "extra"
_PART = 3  # letters that a part of a name must have


def near(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three names like a mistyped one: those that begin with it, the most similar, those that have it."""
    known = list(dict.fromkeys(names))
    longer = [each for each in known if name and each.startswith(name)]
    holding = [each for each in known if len(name) >= _PART and name in each]
    return list(dict.fromkeys([*longer, *get_close_matches(name, known, _MOST, _ALIKE), *holding]))[:_MOST]


def choices(name: object, names: Iterable[str], *forms: str) -> str:
    """Return `allowed: a, b, FORM`, and the names among them that a user may have meant; before a long list.

    Args:
        name: The wrong name.
        names: The allowed names.
        forms: What else is allowed, such as `MODULE:NAME`.
    """
    known = tuple(names)
    allowed = f"allowed: {', '.join((*known, *forms)) or 'none'}"
    if len(known) >= _MANY and (question := _question(str(name), known)):
        return f"{question} {allowed}"
    return f"{allowed}{meant(str(name), known)}"


def meant(name: str, names: Iterable[str], write: Callable[[str], str] = str) -> str:
    """Return `; did you mean 'a' or 'b'?` for a mistyped name; nothing if no name is like it.

    `write` turns a name into the text that a user can paste.
    """
    question = _question(name, names, write)
    return f"; {question}" if question else ""


def _question(name: str, names: Iterable[str], write: Callable[[str], str] = str) -> str:
    found = [repr(write(each)) for each in near(name, names)]
    return f"did you mean {' or '.join(found)}?" if found else ""


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 trial`, `12 trials`; `1 entry`, `2 entries`; `1 class`, `2 classes`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def require_once(what: str, names: Sequence[str]) -> None:
    """Refuse a name that is given twice; `what` says in the error what it names.

    Raises:
        InputError: If there is one.
    """
    if twice := next((name for place, name in enumerate(names) if name in names[:place]), None):
        raise InputError(f"{what} {twice}: is given twice")
