"""`python -m benchmarks`: every benchmark that it lists is there."""

from __future__ import annotations

import sys

import pytest

from benchmarks import __main__ as command


def test_each_name_is_listed_and_another_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(callable(run) for run in command.BENCHMARKS.values())
    monkeypatch.setattr(sys, "argv", ["benchmarks", "overheat"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "unknown benchmark 'overheat'" in said and all(name in said for name in command.BENCHMARKS)


def test_rows_with_other_columns_stand_under_their_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"method": "tak", "seconds": 1.0}, {"method": "tmc", "share": 0.5}]
    monkeypatch.setattr(command, "measured", lambda name: rows)
    monkeypatch.setattr(command, "write_pages", lambda: None)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "choosing"])
    command.main()
    table = [line.split("┃" if "┃" in line else "│")[1:-1] for line in capsys.readouterr().out.splitlines()]
    cells = [[cell.strip() for cell in line] for line in table if line]
    assert cells == [["method", "seconds", "share"], ["tak", "1.000", ""], ["tmc", "", "0.500"]]
