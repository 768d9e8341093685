"""Numbers as people write them in YAML files and on the command line."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, TypeGuard

from pydantic import AfterValidator, BeforeValidator

from search_spaces.text_files import shown
from search_spaces.yaml_text import is_decimal, number

Scalar = bool | int | float | str


class SpaceError(ValueError):
    """A search space is wrong; the message is one line that names file, key, value and what is allowed."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number, which `True` is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_scalar(value: object) -> object:
    """Read text that is a number as that number, as the command line and quoted text in files have it.

    Returns:
        The number; anything else as it is.

    Raises:
        ValueError: If it is a number that no computer has.
    """
    return number(value) if isinstance(value, str) and is_decimal(value) else value


def _finite(value: Scalar) -> Scalar:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be finite")
    return value


ScalarField = Annotated[Scalar, BeforeValidator(as_scalar), AfterValidator(_finite)]


def parse_assignments(texts: Iterable[str]) -> dict[str, Scalar]:
    """Parse every `key=value` of the command line.

    Returns:
        Key to value.

    Raises:
        SpaceError: If one is wrong, or a key is set twice.
    """
    found: dict[str, Scalar] = {}
    for key, value in map(parse_assignment, texts):
        if key in found:
            raise SpaceError(f"--set {key}: is given twice, {found[key]} and {value}")
        found[key] = value
    return found


def parse_assignment(text: str) -> tuple[str, Scalar]:
    """Parse `key=value` of the command line.

    Returns:
        Key and value; a value that is a number comes as one.

    Raises:
        SpaceError: If the text has no `=`, no key or no value.
    """
    key, sign, value = text.partition("=")
    if not (sign and key.strip() and value.strip()):
        raise SpaceError(f"--set {shown(text)}: must be KEY=VALUE, such as lr=0.001")
    try:
        scalar = as_scalar(value.strip())
    except ValueError as error:
        raise SpaceError(f"--set {shown(text)}: {error}") from error
    assert isinstance(scalar, int | float | str)
    return key.strip(), scalar
