"""Numbers in YAML files and on the command line."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, TypeGuard

from pydantic import AfterValidator, BeforeValidator

from checked_input.errors import InputError
from checked_input.text_files import shown
from checked_input.yaml_text import number_or_text

Scalar = bool | int | float | str


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number; `True` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_scalar(value: object) -> object:
    """Return the number in a text, or a scalar as it is; raises a ValueError if the value is no scalar."""
    if not isinstance(value, bool | int | float | str):
        raise ValueError("must be a number, a text, true or false")
    return number_or_text(value) if isinstance(value, str) else value


def _finite(value: Scalar) -> Scalar:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be finite")
    return value


ScalarField = Annotated[Scalar, BeforeValidator(as_scalar), AfterValidator(_finite)]


def parse_assignments(texts: Iterable[str], option: str = "--set") -> dict[str, Scalar]:
    """Return key and value of every `key=value`, numbers as numbers; a wrong text or second value is an InputError."""
    found: dict[str, Scalar] = {}
    for text in texts:
        key, _, right = (part.strip() for part in text.partition("="))
        if not (key and right):
            raise InputError(f"{option} {shown(text)}: must be KEY=VALUE")
        try:
            value = number_or_text(right)
        except ValueError as error:
            raise InputError(f"{option} {shown(text)}: {error}") from error
        if key in found:
            raise InputError(f"{option} {key}: is given twice, {found[key]} and {value}")
        found[key] = value
    return found
