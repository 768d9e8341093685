"""Texts of strangers: how much of a file is read, and what of a value is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from checked_input.text_files import (
    LARGEST,
    TextFileError,
    one_line,
    printable,
    read_json,
    read_text,
    shown,
    spreadsheet_cell,
)


def test_the_bound_of_a_file_is_the_given_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x" * 11)
    assert len(read_text(path, 11)) == 11
    with pytest.raises(TextFileError, match="more than 10 bytes"):
        read_text(path, 10)
    path.write_text("x" * (LARGEST + 5))
    assert len(read_text(path, LARGEST + 5)) == LARGEST + 5


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as error:
        read_text(tmp_path / "none")
    assert error.value.filename == str(tmp_path / "none")


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "9" * 5000])
def test_json_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(TextFileError, match="^cannot be read "):
        read_json(tmp_path / "file")


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", "\t=1", "\r=1"])
def test_text_that_looks_like_a_formula(text: str) -> None:
    assert spreadsheet_cell(text) == f"'{text}"
    assert [spreadsheet_cell(value) for value in ("a=1", -1, None)] == ["a=1", -1, None]


def test_values_are_shown_in_one_line_without_control_characters() -> None:
    assert [one_line(value, 3) for value in ("abc", "abcd", "a\nb", "", "\x1b[m")] == [
        "abc",
        "abc...",
        "a...",
        "",
        "?[m",
    ]
    assert printable("a\nb\x1b[31m\x9b31m\x7f", "!") == "a\nb![31m!31m!"
    assert shown("a\nb") == "'a\\nb'" and shown(10**5000) == "a int too large to show"
    assert shown("abc", 5) == "'abc'" and shown("abcd", 5) == "'abcd..."
    deep: list[object] = []
    for _ in range(10**5):
        deep = [deep]
    assert shown(deep) == "a list too large to show"
