"""The folder of a driver's attempt."""

from __future__ import annotations

from pathlib import Path

from tausearch.execution.tune_run import _next_attempt
from tausearch.runs import RunDirectory


def test_no_two_drivers_share_a_folder_also_of_searches_of_one_name(tmp_path: Path) -> None:
    here, there = (RunDirectory(tmp_path / root / "s") for root in ("here", "there"))
    first = _next_attempt(here)
    (here.ray / first).mkdir(parents=True)
    second = _next_attempt(here)
    assert first.startswith("attempt-1-") and second.startswith("attempt-2-")
    assert len({first, second, _next_attempt(there)}) == 3
