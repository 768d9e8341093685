"""A YAML file as a model: its values, or the first fault in words."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Literal

import pytest
from pydantic import FiniteFloat, ValidationError

from checked_input.schema import Strict, first_fault, is_no_mapping, read_model
from checked_input.text_files import TextFileError


class Point(Strict):
    x: int
    y: int
    unit: Literal["mm", "cm"] = "mm"
    most: FiniteFloat = 1.0


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ({"x": "a", "y": "b"}, "key 'x': must be a whole number, got 'a'"),
        ({"y": 1}, "key 'x' is missing"),
        ({"x": 1, "y": 2, "z": 3}, "unknown key 'z'"),
        ({"x": 1, "y": 2, "unit": "m"}, "key 'unit': must be 'mm' or 'cm', got 'm'"),
        ({"x": 1, "y": 2, "most": math.inf}, "key 'most': must be a finite number, got inf"),
    ],
)
def test_the_first_fault_of_a_file(content: dict[str, object], fault: str) -> None:
    with pytest.raises(ValidationError) as error:
        Point.model_validate(content)
    assert re.fullmatch(fault, first_fault(error.value))


def written(folder: Path, text: str) -> Path:
    path = folder / "point.yaml"
    path.write_text(text)
    return path


def test_a_file_is_read_as_a_model(tmp_path: Path) -> None:
    assert read_model(written(tmp_path, "x: 1\ny: 2\n"), Point.model_validate) == Point(x=1, y=2)
    with pytest.raises(FileNotFoundError):
        read_model(tmp_path / "none", Point.model_validate)


@pytest.mark.parametrize(
    ("text", "fault"), [("{", "is not valid YAML at line 2 .*"), ("y: 1", "key 'x' is missing"), ("3", ".*, got 3")]
)
def test_the_fault_of_a_file_is_said_without_its_path(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(TextFileError) as error:
        read_model(written(tmp_path, text), Point.model_validate)
    assert re.fullmatch(fault, str(error.value))


def test_a_caller_can_say_what_is_wrong_in_its_own_words(tmp_path: Path) -> None:
    def explain(error: ValidationError) -> str:
        return "no mapping" if is_no_mapping(error) else "another fault"

    for text, fault in (("[x, y]", "no mapping"), ("x: {}", "another fault"), ("x: 1", "another fault")):
        with pytest.raises(TextFileError, match=f"^{fault}$"):
            read_model(written(tmp_path, text), Point.model_validate, explain)
