"""The base of the schemas of all files, and how a YAML file is read into its schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from checked_input.names import counted
from checked_input.text_files import TextFileError, one_line, shown
from checked_input.yaml_text import read_yaml

Model = TypeVar("Model")
UNUSED = Field(exclude_if=lambda value: not value)  # in `Annotated`: a field that a file leaves out where it is empty
_OUR_WORDS = {  # kind of pydantic's fault to words in place of pydantic's
    "missing": "is missing",
    **dict.fromkeys(("model_type", "dict_type"), "must be a mapping, as {A: B}"),
    **dict.fromkeys(
        ("list_type", "tuple_type", "sequence_str", "is_instance_of"), "must be a list in brackets, as [A, B]"
    ),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    "string_type": "must be a text",
}


def read_model(
    path: Path, validate: Callable[[object], Model], explain: Callable[[ValidationError], str] | None = None
) -> Model:
    """Return the checked content of a YAML file.

    Args:
        path: The file.
        validate: Makes the model of plain values, such as `model_validate` of its class.
        explain: Returns what is wrong with the values, in one line; by default the first fault.

    Raises:
        FileNotFoundError: If there is no such file.
        TextFileError: If it cannot be read, is not YAML, or its values are wrong. The message has no path.
    """
    try:
        return validate(read_yaml(path))
    except ValidationError as error:
        raise TextFileError((explain or first_fault)(error)) from error


def is_no_mapping(error: ValidationError) -> bool:
    """Whether the whole content of a file is not a mapping."""
    first = error.errors()[0]
    return first["loc"] == () and first["type"] == "model_type"


def first_fault(error: ValidationError) -> str:
    """Return the first wrong key of a file and its fault, in one line."""
    first = error.errors()[0]
    key = ".".join(one_line(part, 40) for part in first["loc"])
    if first["type"] == "missing":
        return f"key {key!r} is missing"
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}"
    where = f"key {key!r}: " if key else ""
    return f"{where}{fault_words(first)}"


def words_of(fault: ErrorDetails) -> str:
    """Return what is wrong with a value, in one line without the value: our words, or else those of pydantic."""
    if fault["type"] == "too_short":
        return f"must have at least {counted(fault['ctx']['min_length'], 'item')}"
    said = fault["msg"].removeprefix("Value error, ")  # pydantic's words before those of a `ValueError`
    return _OUR_WORDS.get(fault["type"], re.sub(r"^(Input|String) should ", "must ", one_line(said)))


def fault_words(fault: ErrorDetails) -> str:
    """Return what is wrong with a value, and the value, in one line."""
    said = words_of(fault)
    if fault["type"] == "value_error" and (", got " in said or isinstance(fault["input"], Mapping)):
        return said
    return f"{said}, got {shown(fault['input'])}"


class Strict(BaseModel):
    """Base of the schemas of all files: frozen, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
