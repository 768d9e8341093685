"""docs/explanation/performance.md: its tables are what the kept files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import BENCHMARKS
from benchmarks.performance import kept
from benchmarks.performance.kept import Kept, Machine
from benchmarks.performance.lines import Line, column
from benchmarks.performance.page import LINES, PAGE, machines, pivoted, write_page

ROWS = [{"method": "a", "share": 0.512}, {"method": "b", "share": 0.7}, {"method": "c"}]
MACHINE = Machine(processor="P", cores=2, instructions="AVX2", gibibytes=8, torch="2.15.0", load=0.5)


def test_the_page_is_what_the_kept_files_say(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    write_page(page)
    assert page.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_each_benchmark_of_the_page_can_be_run() -> None:
    assert set(LINES) <= set(BENCHMARKS)
    assert {file.stem for file in kept.MEASURED.iterdir()} == set(LINES)


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ({}, ("51.2 % (`a`), 70.0 % (`b`)", "")),
        ({"at_most": 70}, ("51.2 % (`a`), 70.0 % (`b`)", "70 %")),
        ({"at_most": 69.9}, ("51.2 % (`a`), 70.0 % (`b`)", "69.9 %, not met")),
        ({"at_least": 50}, ("51.2 % (`a`), 70.0 % (`b`)", "at least 50 %")),
        ({"at_least": 60}, ("51.2 % (`a`), 70.0 % (`b`)", "at least 60 %, not met")),
        ({"values": column("share", times=100, method="a"), "at_most": 70}, ("51.2 %", "70 %")),
        ({"values": column("share", times=100, method="d"), "at_most": 70}, ("not measured", "70 %")),
        ({"values": lambda _: {"a": 1.0, "b": 4.0, "c": 2.0, "d": 3.0}}, ("1.0 to 4.0 %", "")),
        ({"values": lambda _: {"a": 1.01, "b": 1.02, "c": 1.0, "d": 1.0}}, ("1.0 %", "")),
    ],
)
def test_a_line_says_each_value_and_whether_its_limit_is_met(line: dict[str, Any], cells: tuple[str, str]) -> None:
    given = {"values": column("share", "method", times=100), "unit": " %", "shown": ".1f", **line}
    assert Line(what="share", **given).cells(ROWS) == ("share", *cells, "")


def test_a_floor_may_be_measured_in_the_same_run() -> None:
    line = Line(what="", values=column("share"), floor="of b", floors=column("share", method="b"))
    assert line.cells(ROWS)[-1] == "0.70, of b"
    assert line.cells([])[-1] == ""


def test_a_measurement_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    folder = tmp_path / "measured"
    for share in (1 / 3, 2 / 3):
        measured = kept.measure("sharing", lambda share=share: [{"share": share, "trials": 16}], folder)  # type: ignore[misc]
    assert measured == kept.read(["sharing", "never run"], folder)["sharing"]
    assert measured.rows == [{"share": 0.666667, "trials": 16}]
    assert measured.machine.processor and measured.machine.cores >= 1 and measured.commit


def test_machines_are_listed_with_what_was_measured_there() -> None:
    kept_on = [Kept(day=day, commit="abc", machine=MACHINE, rows=[]) for day in ("2026-01-01", "2026-01-02")]
    found = {"a": kept_on[0], "b": kept_on[1], "c": kept_on[0]}
    assert machines(found).splitlines() == [
        "- `a`, `c`: 2026-01-01, commit abc; P, 2 cores with AVX2, 8 GiB, PyTorch 2.15.0; load before 0.5",
        "- `b`: 2026-01-02, commit abc; P, 2 cores with AVX2, 8 GiB, PyTorch 2.15.0; load before 0.5",
    ]


def test_a_machine_that_was_not_noted_is_said_so() -> None:
    unknown = MACHINE.model_copy(update={"processor": None, "instructions": None, "load": None})
    found = {"a": Kept(day="2026-01-01", commit="abc", machine=unknown, rows=[])}
    said = "processor not noted, 2 cores, 8 GiB, PyTorch 2.15.0; load before not noted"
    assert machines(found) == f"- `a`: 2026-01-01, commit abc; {said}"


def test_a_table_of_parts_leaves_a_cell_empty_where_nothing_was_measured() -> None:
    rows = [("x", 16, 1.0), ("y", 16, 2.0), ("x", 64, 3.0)]
    table = pivoted(
        [dict(zip(("part", "trials", "percent"), row, strict=True)) for row in rows], *("part", "trials", "percent")
    )
    assert table.splitlines()[2:] == ["| x | 1.0 | 3.0 |", "| y | 2.0 |  |"]
