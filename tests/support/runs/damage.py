"""Random damage to a YAML or JSON file: of its values, of its letters, of its bytes."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from json import dumps
from typing import Any

import yaml
from hypothesis import strategies as st

_JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([10**400, -1e308, 1e-320, float("nan"), float("inf"), "1e-3", "1e999", "nan", "0x1F", "", "all"]),
    st.sampled_from([[], {}, [[]], {"low": 1}, {"choices": []}, {1: 2}, {"digits": None}, [None], {None: 1}]),
    st.text(max_size=6),
)
_LETTERS = st.sampled_from([*"{}[]:,-#&*!|>'\"%@`\t\n 0eE.~?x\0\x85\ud800", ": ", "- ", "<<: ", "!!python/name:os "])
_TAGGED = ["2001-99-99", "!!int x", "!!bool x", "!!float x", "!!timestamp x", "!!binary x", "!!set [a]", "*a"]
_ODD = ["&a [*a]", "1:99", '"a\\nb"', '"\\ud800"', "? [1]", "0x", "1_0", "1e400", "-.inf", ".nan"]
_SCALARS = st.sampled_from([*_TAGGED, *_ODD, "1" * 5000, "[" * 3000, "9" * 400])


def damaged(text: str) -> st.SearchStrategy[bytes]:
    """Return damaged forms of a YAML file of mappings and scalars."""
    return st.one_of(_values(text), _scalars(text), _letters(text), _bytes(text))


def damaged_json(text: str) -> st.SearchStrategy[bytes]:
    """Return damaged forms of a JSON file."""
    return st.one_of(_values(text, json=True), _letters(text), _bytes(text))


@st.composite
def _values(draw: st.DrawFn, text: str, *, json: bool = False) -> bytes:
    """Some values are gone, others are of another kind, and there may be keys that nobody knows."""
    content = yaml.safe_load(text)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(content))
        if not places:
            break
        where, key = draw(st.sampled_from(places))
        change = draw(st.sampled_from(["replace", "delete", "add"]))
        if change == "delete":
            del where[key]
            continue
        if change == "add" and isinstance(where, dict):
            key = draw(st.sampled_from(["lrr", "digits", 1, True, None]))
        where[key] = copy.deepcopy(draw(_JUNK))
    if json:
        return dumps(content, default=str).encode("utf-8", "surrogatepass")
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True).encode("utf-8", "surrogatepass")


@st.composite
def _scalars(draw: st.DrawFn, text: str) -> bytes:
    """A key or a value is something that YAML reads in a way of its own, or not at all."""
    start, stop = draw(st.sampled_from([match.span() for match in re.finditer(r"[\w.-]+", text)]))
    return (text[:start] + draw(_SCALARS) + text[stop:]).encode()


@st.composite
def _letters(draw: st.DrawFn, text: str) -> bytes:
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        stop = start + draw(st.sampled_from([0, 0, 1, 2, 10, 1000]))
        text = text[:start] + draw(st.just("") | _LETTERS) + text[stop:]
    return text.encode("utf-8", "surrogatepass")


@st.composite
def _bytes(draw: st.DrawFn, text: str) -> bytes:
    content = bytearray(text.encode())
    for _ in range(draw(st.integers(1, 3))):
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content)


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(content, dict):
        for key, value in content.items():
            yield content, key
            yield from _places(value)
    elif isinstance(content, list):
        for key, value in enumerate(content):
            yield content, key
            yield from _places(value)
