"""Fields of dataclasses that users fill: each is checked by its annotation, in Python and on the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Any

from checked_input import ranges
from checked_input.errors import InputError
from checked_input.ranges import NumberRange
from checked_input.text_files import shown

# Fields of requests that take `MODULE:NAME`.
MAY_BE_CODE = ("benchmark", "method", "backbone", "algorithm", "scheduler", "rule")
# Fields that are lists of different numbers.
_DIFFERENT = ("seeds", "class_orders")
_Types = type | tuple[type, ...]
# The annotation of a field to the types that it accepts, those of the parts of a list, and their name in errors;
# `NumberRange` checks numbers. An annotation is a text here, so that a check imports neither torch nor pydantic.
_KINDS: dict[str, tuple[_Types, _Types, str]] = {
    "bool": (bool, object, "True or False"),
    "str": (str, object, "a text"),
    "str | Path": ((str, Path), object, "a path"),
    "Sequence[str]": ((list, tuple), (str, Path), "a list of texts"),
    "Sequence[str | Path]": ((list, tuple), (str, Path), "a list of texts"),
    "Sequence[str] | int | str": ((list, tuple, int, str), (str, int), "'label', a seed, or names of classes"),
    "Sequence[int | str]": ((list, tuple, range), (int, str), "a list of whole numbers or names"),
    "Sequence[int]": ((list, tuple, range), object, "a list of whole numbers"),
    "Sequence[float]": ((list, tuple), object, "a list of numbers"),
    "Sequence[Callback | str]": ((list, tuple), object, "a list of callbacks"),
    "Mapping[str, Scalar]": (Mapping, object, "a mapping of names to values"),
}
_STREAMS = ("stdout", "stderr", "nowhere")


def within(limits: NumberRange, default: Any) -> Any:
    """Return a field of a request whose number, or each of whose numbers, must lie in a range."""
    return field(default=default, metadata={"range": limits})


def require_argument(fits: bool, name: str, words: str, got: object) -> None:
    """Refuse an argument of a function that does not fit; `words` say what it must be.

    Raises:
        InputError: If it does not fit.
    """
    if not fits:
        raise InputError(f"{name} must be {words}, got {shown(got)}")


class CheckedRequest:
    """A dataclass that checks its numbers and texts when it is made; the error names the field.

    Numbers and arrays of NumPy become those of Python, and `~` at the start of a path the home folder.
    """

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            InputError: With a line for each number that is not in its range, and each text that is empty or has
                several lines.
        """
        own = fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        for each in own:
            object.__setattr__(self, each.name, _without_numpy(getattr(self, each.name)))
        if faults := [
            f"{_option(each)} {fault}" for each in own if (fault := field_fault(each, getattr(self, each.name)))
        ]:
            raise InputError(*faults)
        for each in own:
            value = getattr(self, each.name)
            if str(each.type).startswith("str | Path") and value is not None:
                object.__setattr__(self, each.name, type(value)(os.path.expanduser(value)))


def field_fault(of: Field[Any], value: object) -> str | None:
    """Return what is wrong with the value of a field by itself, of several parts with the first wrong one."""
    if value is None and str(of.type).endswith(" | None"):
        return None
    if words := _expected(of, value):
        got = shown(value)
        if isinstance(value, type) and of.name in MAY_BE_CODE:
            got = f"a class; its name is '{value.__module__}:{value.__name__}'"
        return f"must be {words}, got {got}"
    if isinstance(value, Mapping) and (fault := _option_fault(value)):
        return fault
    parts = value if isinstance(value, list | tuple | range) else (value,)
    fault = next((fault for part in parts if (fault := _fault(of, part))), None)
    return fault or (ranges.different_fault(parts) if of.name in _DIFFERENT else None)


def _expected(of: Field[Any], value: object) -> str | None:
    """Return the expected kind of a value in words; None for a value of that kind."""
    asked = str(of.type).removesuffix(" | None")
    if asked == "BestFile":  # to import the class takes seconds
        return None if hasattr(value, "hyperparameters") else "a best file, as `load_best` returns it"
    if asked == "Stream":
        return None if value in _STREAMS else "'stdout', 'stderr' or 'nowhere'"
    kind, of_parts, words = _KINDS.get(asked, (object, object, ""))
    if not isinstance(value, kind):
        return words
    if isinstance(value, list | tuple) and not all(isinstance(part, of_parts) for part in value):
        return words
    single = "range" in of.metadata and not asked.startswith("Sequence")
    return "one number" if single and isinstance(value, list | tuple | range) else None


def _option_fault(options: Mapping[Any, object]) -> str | None:
    """Return the first fault of names to values, as ` NAME=VALUE: must be ...`; None without one."""
    for name, value in options.items():
        if not isinstance(name, str):
            return f"must have texts as names, got {shown(name)}"
        if not isinstance(value, bool | int | float | str):
            return f"{name}={shown(value)}: must be a number, a text, true or false"
    return None


def _fault(of: Field[Any], value: object) -> str | None:
    limits: NumberRange | None = of.metadata.get("range")
    if limits is not None and not (isinstance(value, str) and "str" in str(of.type)):
        return limits.fault(value)
    return ranges.text_fault(str(value)) if isinstance(value, str | Path) else None


_OPTIONS = {"callbacks": "callback", "sampler_options": "sampler-option", "pruner_options": "pruner-option"}


def _option(of: Field[Any]) -> str:
    """Return the name of a field on the command line, or in Python where the command line has none."""
    if of.type == "Stream":
        return of.name
    name = _OPTIONS.get(of.name, of.name).replace("_", "-")
    return name if of.default is MISSING else f"--{name}"


def _without_numpy(value: Any) -> Any:
    """Return NumPy's numbers and arrays as Python's numbers and lists, in lists and mappings, too."""
    if type(value).__module__ == "numpy":  # to import it takes a tenth of a second
        return value.tolist()
    if type(value) in (list, tuple):
        return type(value)(map(_without_numpy, value))
    return {k: _without_numpy(v) for k, v in value.items()} if isinstance(value, dict) else value
