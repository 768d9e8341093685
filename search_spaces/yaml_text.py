"""YAML as every reader of the project has it: plain values, bounded, and nothing that stands for something else.

The values are those of YAML 1.2's core schema, so that what is written is what is read: `1e-3` is a number, and `no`,
`1:30` and `2001-02-03` are text. The text is read event by event and never expanded: aliases, tags and merge keys,
by which a few lines become gigabytes or objects, are refused.

Source: YAML 1.2.2, chapter 10.3, https://yaml.org/spec/1.2.2/#103-core-schema.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from search_spaces.text_files import TextFileError, one_line, read_text, shown

DEEPEST = 20  # mappings and lists within each other; the tool's own files have five
_LARGEST_WHOLE = 2**63 - 1
_WHOLE = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + word: float(sign + word[1:]) for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
# libyaml's parser where PyYAML was built with it; it is many times as fast.
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Place = tuple[Any, Any]  # a mapping or list that is being filled, and the key that waits for its value
_NO_KEY = object()


def read_yaml(path: Path) -> object:
    """Read a YAML file into plain values.

    Returns:
        What the file says.

    Raises:
        FileNotFoundError: If there is no such file.
        TextFileError: If it cannot be read, or is not YAML as this module has it.
    """
    return parse_yaml(read_text(path))


def parse_yaml(text: str) -> object:
    """Parse YAML into plain values.

    Returns:
        What the text says; None if it says nothing.

    Raises:
        TextFileError: If it is not valid; has more than one document, an alias, a tag or a key twice; is nested too
            deeply; or has a number that is too large. The message names the line.
    """
    try:
        return _value(yaml.parse(text, Loader=_PARSER))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" at line {mark.line + 1}"
        raise TextFileError(
            f"is not valid YAML{where} ({one_line(getattr(error, 'problem', None) or error)})"
        ) from error
    except UnicodeError as error:  # half of a surrogate pair
        raise TextFileError(f"is not valid YAML ({one_line(error)})") from error


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        """Write a value out wherever it stands; what we write, we read."""
        return True


# PyYAML quotes texts that YAML 1.1 takes for something else; `1e-3`, a number since YAML 1.2, is none of them.
_Dumper.add_implicit_resolver("!number", re.compile(f"^({_NUMBER.pattern})$"), list("+-.0123456789"))


def yaml_of(content: object) -> str:
    """Return plain values as YAML that `parse_yaml` reads back to the same values, keys in their order."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False)


def _value(events: Iterator[yaml.Event]) -> object:
    """Build the value of the only document."""
    root: list[Any] = []
    open_places: list[_Place] = [(root, _NO_KEY)]
    for event in events:
        if isinstance(event, yaml.NodeEvent):
            _require_plain(event)
        if isinstance(event, yaml.DocumentStartEvent) and root:
            raise _fault(event, "a file holds one document")
        if isinstance(event, yaml.ScalarEvent):
            _put(open_places, _scalar(event), event)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(open_places) > DEEPEST:
                raise _fault(event, f"is nested more than {DEEPEST} deep")
            open_places.append(({} if isinstance(event, yaml.MappingStartEvent) else [], _NO_KEY))
        elif isinstance(event, yaml.CollectionEndEvent):
            _put(open_places, open_places.pop()[0], event)
    return root[0] if root else None


def _require_plain(event: yaml.NodeEvent) -> None:
    if isinstance(event, yaml.AliasEvent):
        raise _fault(event, f"alias *{one_line(event.anchor)}: write the value out")
    tag = getattr(event, "tag", None)
    if tag is not None:
        raise _fault(event, f"tag {one_line(tag)}: leave it out")


def _put(places: list[_Place], value: Any, event: yaml.Event) -> None:
    """Put a value where it belongs: at the end of a list, or as the next key or value of a mapping."""
    collection, key = places[-1]
    if isinstance(collection, list):
        collection.append(value)
    elif key is not _NO_KEY:
        collection[key] = value
        places[-1] = (collection, _NO_KEY)
    elif isinstance(value, dict | list) or value == "<<":
        raise _fault(event, f"a key must be a word or a number, got {shown(value)}")
    elif value in collection:
        raise _fault(event, f"key {shown(value)} is there twice")
    else:
        places[-1] = (collection, value)


def _scalar(event: yaml.ScalarEvent) -> object:
    text = event.value
    if event.style:  # quoted, or a block of text
        return text
    if text in _WORDS:
        return _WORDS[text]
    if not is_decimal(text):
        return text
    try:
        return number(text)
    except ValueError as error:
        raise _fault(event, str(error)) from error


def is_decimal(text: str) -> bool:
    """Whether a text is a number as this module has it, such as `-1e-3`."""
    return _NUMBER.fullmatch(text) is not None


def number(text: str) -> int | float:
    """Read a decimal number.

    Returns:
        The number: whole if it is written without a point or exponent.

    Raises:
        ValueError: If the text is no number, or one that neither 64 bits of a whole number nor a float can hold.
    """
    if not is_decimal(text):
        raise ValueError(f"{shown(text)} is not a number")
    value = float(text)
    if math.isinf(value) or (_WHOLE.fullmatch(text) and (len(text) > 40 or abs(int(text)) > _LARGEST_WHOLE)):
        raise ValueError(f"{one_line(text, 20)} is too large a number")
    if value == 0 and re.search("[1-9]", re.split("[eE]", text)[0]):
        raise ValueError(f"{one_line(text, 20)} is too small a number")
    return int(text) if _WHOLE.fullmatch(text) else value


def _fault(event: yaml.Event, what: str) -> TextFileError:
    line = "" if event.start_mark is None else f" at line {event.start_mark.line + 1}"
    return TextFileError(f"is not valid YAML{line} ({what})")
