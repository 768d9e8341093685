"""The base of the schemas of all files, and the first fault of a file in one line."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from checked_input.text_files import one_line, shown


def first_fault(error: ValidationError) -> str:
    """Return the first wrong key of a file and its fault, in one line."""
    first = error.errors()[0]
    key = ".".join(one_line(part, 40) for part in first["loc"])
    if first["type"] == "missing":
        return f"key {key!r} is missing"
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}"
    where = f"key {key!r}: " if key else ""
    return f"{where}{one_line(first['msg'])}, got {shown(first['input'])}"


class Strict(BaseModel):
    """Base of the schemas of all files: frozen, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
