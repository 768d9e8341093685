"""`python -m benchmarks`: every benchmark that it lists is there."""

from __future__ import annotations

import sys

import pytest

from benchmarks.__main__ import BENCHMARKS, main


def test_each_name_is_listed_and_another_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(callable(run) for run in BENCHMARKS.values())
    monkeypatch.setattr(sys, "argv", ["benchmarks", "overheat"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "unknown benchmark 'overheat'" in said and all(name in said for name in BENCHMARKS)
