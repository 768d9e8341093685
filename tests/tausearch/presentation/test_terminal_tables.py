"""Tables in a terminal of any width: what has no room is counted, never dropped in silence; a pipe gets everything."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tausearch.presentation import Column, Table, console, terminal_table

TABLE = Table(
    "t",
    [
        *(Column("method"), Column("accuracy"), Column("seconds", minor=True), Column("note", wrap=True)),
        *(Column("forgetting"), Column("run", minor=True)),
    ],
    [
        (
            "ita-lora",
            "90.00 ± 1.00",
            "1234567",
            "some words that can be broken",
            "3.00 ± 0.10",
            "digits-ita-lora-1-final",
        )
    ],
)


def shown(width: int) -> list[str]:
    out = Console(width=width, file=io.StringIO(), highlight=False)
    out.print(terminal_table(TABLE))
    return out.file.getvalue().splitlines()  # type: ignore[attr-defined]


def names(width: int) -> list[str]:
    return [name for name in TABLE.header if name in shown(width)[2]]


def test_minor_columns_go_first_then_the_last_ones() -> None:
    assert names(140) == TABLE.header and not any("left out" in line for line in shown(140))
    assert names(75) == ["method", "accuracy", "seconds", "note", "forgetting"]
    assert shown(75)[-1] == "1 column left out for lack of width; see --format json"
    assert names(56) == ["method", "accuracy", "note", "forgetting"]
    assert shown(56)[-1] == "2 columns left out for lack of width; see --format json"
    assert names(44) == ["method", "accuracy", "note"] and names(26) == ["method"]
    assert len(shown(9)) > 2  # the first column stays, whatever its width


@pytest.mark.parametrize(("width", "left"), [(98, "AB"), (97, "AB"), (55, "AB"), (54, "A")])
def test_a_minor_column_whose_text_would_fill_many_lines_goes_first(width: int, left: str) -> None:
    columns = [Column("A"), Column("long", wrap=True, minor=True), Column("B", minor=True)]
    out = Console(width=width, file=io.StringIO())
    out.print(terminal_table(Table("", columns, [("a" * 8, "x" * 120, "b" * 40)])))
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [name for name in "AB" if name in lines[1]] == list(left)
    assert ("long" in lines[1]) == (width == 98) and len(lines) <= 3 + 4 + 1


def test_a_column_that_is_to_stay_whole_is_whole_where_another_can_be_left_out() -> None:
    columns = [Column("run", wrap=True), Column("note", wrap=True)]
    table = terminal_table(Table("", columns, [("digits-ita-lora-1-final", "some words")]))
    table.columns[0].width = len("digits-ita-lora-1-final")
    out = Console(width=30, file=io.StringIO(), highlight=False)
    out.print(table)
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[3] == "│ digits-ita-lora-1-final │" and lines[5].startswith("1 column left out")


@pytest.mark.parametrize("width", range(30, 120, 7))
def test_what_is_shown_is_whole(width: int) -> None:
    lines = shown(width)
    assert "…" not in "".join(lines) and all(len(line) <= width for line in lines)
    missing = len(TABLE.header) - len(names(width))
    below = " ".join(" ".join(lines).split("┘")[1].split())
    assert below.startswith(f"{missing} column") if missing else below == ""


def test_a_sum_stands_below_a_rule() -> None:
    out = Console(width=40, file=io.StringIO())
    out.print(terminal_table(Table("", [Column("task")], [("1",), ("2",), ("mean",)], {0: "marked", 2: "total"})))
    signs = [line[0] for line in out.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert signs == ["┏", "┃", "┡", "│", "│", "├", "│", "└"]


def test_a_pipe_gets_every_column(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    many = [Column(f"hyperparameter {number}") for number in range(40)]
    console().print(terminal_table(Table("", many, [tuple("0.001" for _ in many)])))
    out = capsys.readouterr().out
    assert "hyperparameter 39" in out and "left out" not in out and "…" not in out
