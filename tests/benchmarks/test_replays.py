"""The tables of docs/how-to/replay.md, from a record made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.choosing import replays
from benchmarks.results.page import places
from tausearch.runs import Record, open_storage
from tausearch.runs.creation import make_run_directory
from tests.support.runs.trials import make_trial, search_spec

VALUES = (70.0, 90.0, 80.0, 60.0)


def test_both_tables_are_written_from_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def search(*what: str, **how: Any) -> None:
        asked.update(how, what=what)
        spec = search_spec().model_copy(update={"name": how["name"]})
        _, directory = make_run_directory(spec, open_storage(how["storage"], write=True))
        for number, value in enumerate(VALUES):
            trial = make_trial(number, value=value)
            trial.rows[0]["val/average_accuracy"] += number  # the last looks best after the first task
            Record(directory.record, tasks=3).write(trial)

    page = tmp_path / "replay.md"
    page.write_text(replays.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr("tausearch.search", search)
    monkeypatch.setattr(replays, "STORAGE", tmp_path / "runs")
    monkeypatch.setattr(replays, "PAGE", page)
    replays.write_page()
    assert asked["what"] == ("letters", "ita-lora") and (asked["trials"], asked["algorithm"]) == (20, "random")
    text = page.read_text(encoding="utf-8")
    assert places(text) == [replays.REPLAYS, replays.PROTOCOLS]
    assert "| `random` | none | 82.00 ± 10.95 | 8.00 | 3 of 5 | 6 |" in text  # over seeds: 90, 90, 90, 70, 70
    assert "2 of 4 trials each; 12 tasks are recorded." in text
    assert "| 1 | 3 | 93.00 | 60.00 | 30.00 | 4 |\n| 3 | 1 | 70.00 | 90.00 | 0.00 | 1 |" in text
