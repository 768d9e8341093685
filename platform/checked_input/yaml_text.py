"""The YAML of all files of the project: plain values of bounded size.

The values are those of YAML 1.2's core schema: `1e-3` is a number, and `no`, `1:30` and `2001-02-03` are text. The text
is read event by event. Aliases, tags and merge keys are refused, because they turn a few lines into gigabytes or
objects.

Source: YAML 1.2.2, chapter 10.3, https://yaml.org/spec/1.2.2/#103-core-schema.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from checked_input.text_files import TextFileError, one_line, read_text, shown

DEEPEST = 20  # nested mappings and lists; the tool's own files have five
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
# libyaml's parser is many times as fast, but PyYAML may be built without it.
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Place = tuple[Any, Any]  # an unfinished mapping or list, and a key without its value
_NO_KEY = object()


def read_yaml(path: Path, *, as_texts: bool = False) -> object:
    """Return the plain values of a YAML file; for errors see `read_text` and `parse_yaml`."""
    return parse_yaml(read_text(path), as_texts=as_texts)


def parse_yaml(text: str, *, as_texts: bool = False) -> object:
    """Return the plain values of a YAML text; None for an empty text.

    Args:
        text: The text.
        as_texts: Return each key and each value as the text that is written: `007` and `true` are names.

    Raises:
        TextFileError: If it is invalid, nested too deeply, or has several documents, an alias, a tag, a duplicate key
            or a number that is too large or too small. The message names the line.
    """
    try:
        return _value(yaml.parse(text, Loader=_PARSER), as_texts)
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
        """Write repeated values out, because `parse_yaml` refuses aliases."""
        return True


# PyYAML quotes text that YAML 1.1 reads as another type. `1e-3` is a number since YAML 1.2, so quote it too.
_Dumper.add_implicit_resolver("!number", re.compile(f"^({_NUMBER.pattern})$"), list("+-.0123456789"))


_BREAKS = re.compile("[\x85\u2028\u2029]")


def yaml_of(content: object) -> str:
    """Return plain values as YAML that `parse_yaml` reads back unchanged, in the order of the keys."""
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    if _BREAKS.search(text):  # PyYAML writes them as they are, but reads them as line breaks
        return yaml.dump(content, Dumper=_Dumper, sort_keys=False)
    return text


def _value(events: Iterator[yaml.Event], as_texts: bool) -> object:
    """Build the value of the only document."""
    root: list[Any] = []
    open_places: list[_Place] = [(root, _NO_KEY)]
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise _fault(event, f"alias *{one_line(event.anchor)}: write the value out")
        if (tag := getattr(event, "tag", None)) is not None:
            raise _fault(event, f"tag {one_line(tag)}: leave it out")
        if isinstance(event, yaml.DocumentStartEvent) and root:
            raise _fault(event, "a file holds one document")
        if isinstance(event, yaml.ScalarEvent):
            _put(open_places, event.value if as_texts else _scalar(event), event)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(open_places) > DEEPEST:
                raise _fault(event, f"is nested more than {DEEPEST} deep")
            open_places.append(({} if isinstance(event, yaml.MappingStartEvent) else [], _NO_KEY))
        elif isinstance(event, yaml.CollectionEndEvent):
            _put(open_places, open_places.pop()[0], event)
    return root[0] if root else None


def _put(places: list[_Place], value: Any, event: yaml.Event) -> None:
    """Add a value to the innermost open collection: to a list, or as the next key or value of a mapping."""
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
    try:
        return number_or_text(text)
    except ValueError as error:
        raise _fault(event, str(error)) from error


def number_or_text(text: str) -> int | float | str:
    """Return the number of a decimal text, an `int` without point and exponent; else the text.

    Raises:
        ValueError: If 64 bits cannot represent the number.
    """
    if not _NUMBER.fullmatch(text):
        return text
    value = float(text)
    if math.isinf(value) or (_WHOLE.fullmatch(text) and (len(text) > 40 or abs(int(text)) > _LARGEST_WHOLE)):
        raise ValueError(f"{one_line(text, 20)} is too large a number")
    if value == 0 and re.search("[1-9]", re.split("[eE]", text)[0]):
        raise ValueError(f"{one_line(text, 20)} is too small a number")
    return int(text) if _WHOLE.fullmatch(text) else value


def _fault(event: yaml.Event, what: str) -> TextFileError:
    line = "" if event.start_mark is None else f" at line {event.start_mark.line + 1}"
    return TextFileError(f"is not valid YAML{line} ({what})")
